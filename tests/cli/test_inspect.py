from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayescl.diagnostics import diagnose, score_candidates
from bayescl_lab.inspect.images import drawn_batches, embedded_views, inspect_images
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.result import Result

FILES = ["inspection-candidates.png", "inspection-reliability.png", "inspection-weights.png"]


@pytest.fixture
def run(trained, bars) -> str:
    """A run of the Bayesian loss on bars."""
    line = f"train images {bars} --loss bayesian --epochs 2 --alpha 0.8 --beta 0.5 --tau_plus 0.3"
    return trained("bayesian", line)


def drawn(run: str) -> list[str]:
    return sorted(path.name for path in Path(run).glob("inspection-*.png"))


def report_of(run: str) -> dict:
    """What the run's own loss does."""
    return json.loads(Path(run, "inspection.json").read_text())["run"]


def test_a_run_is_inspected_in_figures_and_pictures(bayescl, run) -> None:
    outcome = bayescl("inspect run --anchors 3 --shown 4 --items 40")
    for words in ("false negatives of an anchor", "ROC-AUC", "run/inspection.html", *FILES):
        assert words in outcome.out
    assert drawn("run") == FILES
    assert Path("run/inspection.html").read_text().count("<img") >= 2
    report = json.loads(Path("run/inspection.json").read_text())
    assert f"Use {report['advice']['call']}" in outcome.out
    assert (report["items"], report["temperature_from"]) == (40, "given")
    report = report["run"]
    assert report["images"] == 40
    assert report["batches"] == 2
    assert report["labelled"]
    assert len(report["candidates"]["anchors"]) == 3
    assert len(report["candidates"]["anchors"][0]["down"]) == 4
    assert report["posteriors"][0]["source"] == "assumed"


def test_the_figures_are_those_of_the_diagnostics_on_the_same_batch(run) -> None:
    found = inspect_images(Path(run), images=20, shown=1)
    folder = RunFolder.open(Path(run), "train images")
    model = ImageRun(ImageSettings.from_config(folder.config()))
    model.load(folder.checkpoint)
    (rows,) = drawn_batches(model.parts.train, 20, 20, 0)
    part = model.parts.train.subset(rows)
    labels = part.labels
    expected = (labels[:, None] == labels).sum() - 20
    assert found.diagnosis.measured_tau_plus == pytest.approx(2 * int(expected) / (20 * 38))
    # Other views, the same encoder: figures that hardly depend on the views agree.
    views = embedded_views(model.model, part, 123, 0)
    other = diagnose([score_candidates(model.model.loss, *views, labels=labels)])
    assert other.measured is not None
    assert found.diagnosis.measured is not None
    assert found.diagnosis.measured.auc == pytest.approx(other.measured.auc, abs=0.1)


def test_what_is_weighed_least_is_most_similar_and_named_by_its_number(bayescl, run) -> None:
    bayescl("inspect run --anchors 2 --shown 3")
    rows = report_of("run")["candidates"]["anchors"]
    assert len({row["anchor"] for row in rows}) == 2
    for row in rows:
        assert row["anchor"] not in row["down"] + row["up"]
        assert row["down_weights"] == sorted(row["down_weights"])
        assert row["up_weights"] == sorted(row["up_weights"], reverse=True)
        assert max(row["down_weights"]) < min(row["up_weights"])
        assert len(set(row["down"])) == 3


@pytest.mark.parametrize("loss", ["info_nce", "hard", "oracle"])
def test_every_loss_can_be_inspected(bayescl, bars, loss) -> None:
    bayescl(f"train images {bars} --epochs 1 --out run --loss {loss}")
    assert bayescl("inspect run --items 20 --anchors 2 --shown 2").status == 0
    report = report_of("run")
    by = "its own weights" if loss in ("hard", "oracle") else "Bayesian weights"
    assert report["candidates"]["weighed_by"] == by
    assert drawn("run") == FILES
    if loss == "oracle":
        assert report["by_weight"]["roc_auc"] == 1
        assert (report["mean_weight_false"], report["mean_weight_true"]) == (0, 1)
    if loss == "info_nce":
        assert report["by_weight"]["roc_auc"] == 0.5


def test_images_without_labels_get_the_pictures_that_need_none(bayescl, pictures) -> None:
    pictures("photos", (".",), count=40)
    line = "--batch_size 10 --width 4 --epochs 1 --device cpu --loss bayesian"
    assert bayescl(f"train images --data photos {line} --out run").status == 0
    assert bayescl("inspect run --items 20 --num-classes 4 --out page.html").status == 0
    assert drawn("run") == ["inspection-candidates.png", "inspection-weights.png"]
    report = json.loads(Path("page.json").read_text())
    assert (report["tau_plus"], report["tau_plus_from"]) == (0.25, "given")
    assert report["run"]["labelled"] is False


def test_the_same_seed_gives_the_same_inspection_and_training_is_not_touched(bayescl, run) -> None:
    before = Path("run/checkpoints/last.ckpt").read_bytes()
    reports = []
    for seed in (1, 1, 2):
        assert bayescl(f"inspect run --items 20 --anchors 2 --seed {seed}").status == 0
        report = report_of("run")
        reports.append({key: report[key] for key in ("measured", "histogram", "candidates")})
    assert reports[0] == reports[1] != reports[2]
    assert Path("run/checkpoints/last.ckpt").read_bytes() == before


def test_of_a_recommender_users_are_paired_with_items_that_they_have(bayescl, recommender) -> None:
    outcome = bayescl(f"inspect {recommender}")
    assert "effective negatives" in outcome.out
    report = json.loads(Path(recommender, "inspection.json").read_text())
    result = Result.read_file(Path(recommender, "result.json"))
    assert (report["items"], report["layout"]) == (result.sizes["judged"], "in_batch")
    assert report["temperature"] == result.settings["temperature"]
    # A user's item scores high among others' items, copies of it left out.
    assert report["losses"]["Bayesian"]["label_free"]["auc"] > 0.7
    assert report["advice"]["copied"] > 0
    assert "--data is for images" in bayescl(f"inspect {recommender} --data x.csv").complaint

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ranking_data import COLUMNS

from bayescl.diagnostics import diagnose, score_candidates
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.inspection import drawn_batches, inspect_images
from bayescl_lab.runs.images.monitoring import embedded_views
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.ranking.inspection import inspect_ranking

FILES = ["inspection-candidates.png", "inspection-reliability.png", "inspection-weights.png"]


@pytest.fixture
def run(trained, bars) -> str:
    """A run of the Bayesian loss on bars."""
    line = f"train images {bars} --loss bayesian --epochs 2 --alpha 0.8 --beta 0.5 --tau_plus 0.3"
    return trained("bayesian", line)


@pytest.fixture(autouse=True)
def _no_probes(monkeypatch) -> None:
    """Probes come after training and take longer than it."""
    monkeypatch.setattr("bayescl_lab.runs.images.run.run_probes", lambda *_, **__: {})


def drawn(run: str) -> list[str]:
    return sorted(path.name for path in Path(run).glob("inspection-*.png"))


def report_of(run: str) -> dict:
    return json.loads(Path(run, "inspection.json").read_text())


def test_a_run_is_inspected_in_figures_and_pictures(bayescl, run) -> None:
    outcome = bayescl("inspect run --anchors 3 --shown 4 --images 40")
    for words in ("alpha assumed", "0.800", "tau_plus measured", "ROC-AUC", "authors' reading"):
        assert words in outcome.out
    assert drawn("run") == FILES
    report = report_of("run")
    assert f"Use {report['advice']['call']}" in outcome.out
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
    assert bayescl("inspect run --images 20 --anchors 2 --shown 2").status == 0
    report = report_of("run")
    own = loss in ("hard", "oracle")
    assert report["candidates"]["weighed_by"] == (
        loss if own else "the Bayesian loss at its defaults"
    )
    assert drawn("run") == FILES
    if loss == "oracle":
        assert report["by_weight"]["roc_auc"] == 1
        assert report["mean_weight"] == {"false": 0, "true": 1}
    if loss == "info_nce":
        assert report["by_weight"]["roc_auc"] == 0.5


@pytest.fixture
def latent_run(trained, bars) -> str:
    """A run of the latent loss on bars."""
    line = f"train images {bars} --epochs 8 --strength 0.2 --loss latent --num_classes 3"
    return trained("latent", line)


def test_latent_classes_are_shown_with_their_trust_and_their_images(bayescl, latent_run) -> None:
    said = bayescl("train images --out run --resume").out
    assert "Trust in the latent classes" in said
    before = Path(latent_run, "checkpoints/last.ckpt").read_bytes()
    outcome = bayescl("inspect run --images 60 --anchors 2 --shown 2")
    for words in ("trust of 6 components", "candidates that attract", "their precision"):
        assert words in outcome.out
    assert drawn("run") == ["inspection-candidates.png", "inspection-components.png", *FILES[1:]]
    report = report_of("run")
    latent = report["latent_classes"]
    assert latent["fitted"]
    assert [mixture["components"] for mixture in latent["mixtures"]] == [6, 12]
    assert 0 < latent["trust"] <= 1
    assert report["posteriors"][0]["source"] == "latent classes"
    assert report["confident_pairs"]["precision"] > 0.9
    assert report["by_weight"]["roc_auc"] > 0.9
    assert report["mean_weight"]["false"] < 0.8 < report["mean_weight"]["true"]
    assert report["candidates"]["weighed_by"] == "latent"
    components = report["components"]
    assert len(components) == 6
    assert sum(one["size"] for one in components) == report["images"]
    assert [one["weight"] for one in components] == sorted(
        (one["weight"] for one in components), reverse=True
    )
    assert Path(latent_run, "checkpoints/last.ckpt").read_bytes() == before
    rows = RunFolder.open(Path(latent_run), "train images").read_metrics()
    assert all({"trust", "pair_recall"} <= row.keys() for row in rows)
    assert rows[-1]["pair_precision"] > 0.9
    assert min(rows[-1]["trust"], rows[-1]["pair_recall"]) > 0


def test_a_latent_run_that_has_fitted_nothing_says_so(bayescl, bars) -> None:
    line = f"train images {bars} --epochs 1 --loss latent --tau_plus 0.02 --out run"
    assert bayescl(line).status == 0
    outcome = bayescl("inspect run --images 20 --anchors 2 --shown 2")
    assert "none yet" in outcome.out
    assert "60 of " in outcome.out
    assert drawn("run") == FILES
    report = report_of("run")
    assert report["latent_classes"] == {
        "fitted": False,
        "remembered": 60,
        "memory_size": 4096,
        "trust": 0.0,
        "threshold": 0.5,
        "mixtures": [],
    }
    assert report["components"] == []
    assert report["confident_pairs"] is None
    assert report["mean_weight"] == {"false": 1, "true": 1}
    (row,) = RunFolder.open(Path("run"), "train images").read_metrics()
    assert (row["trust"], row["pair_recall"]) == (0, 0)
    assert "pair_precision" not in row


@pytest.mark.parametrize("loss", ["bayesian", "latent --tau_plus 0.3"])
def test_images_without_labels_get_the_pictures_that_need_none(bayescl, pictures, loss) -> None:
    pictures("photos", (".",), count=40)
    line = f"--batch_size 10 --width 4 --epochs 1 --device cpu --loss {loss}"
    assert bayescl(f"train images --data photos {line} --out run").status == 0
    outcome = bayescl("inspect run --images 20")
    assert "measured" not in outcome.out
    found = ["components"] if loss.startswith("latent") else []
    assert drawn("run") == [f"inspection-{name}.png" for name in ("candidates", *found, "weights")]
    report = report_of("run")
    assert report["labelled"] is False
    assert all(one["majority"] is None for one in report["components"])
    columns = RunFolder.open(Path("run"), "train images").read_metrics()[0].keys()
    assert not any(name.startswith("pair_") for name in columns)
    if loss == "bayesian":
        assert "alpha without labels" in outcome.out
        assert "trust" not in columns


def test_the_same_seed_gives_the_same_inspection_and_training_is_not_touched(bayescl, run) -> None:
    before = Path("run/checkpoints/last.ckpt").read_bytes()
    reports = []
    for seed in (1, 1, 2):
        assert bayescl(f"inspect run --images 20 --anchors 2 --seed {seed}").status == 0
        report = report_of("run")
        reports.append({key: report[key] for key in ("measured", "histogram", "candidates")})
    assert reports[0] == reports[1] != reports[2]
    assert Path("run/checkpoints/last.ckpt").read_bytes() == before


def test_of_a_recommender_held_out_items_play_the_false_negatives(bayescl, recommender) -> None:
    outcome = bayescl(f"inspect {recommender} --anchors 2 --shown 3")
    assert "tau_plus measured" in outcome.out
    assert drawn(recommender) == ["inspection-reliability.png", "inspection-weights.png"]
    report = report_of(recommender)
    found = inspect_ranking(Path(recommender), users=1000)
    result = RunFolder.open(Path(recommender), "train ranking").read_result()
    assert report["users"] == found.report["users"] == result["users"]
    # Every held-out pair is a false negative, and every unknown pair a candidate.
    counts = found.diagnosis.histogram
    assert counts.false_negatives is not None
    assert int(counts.false_negatives.sum()) == result["interactions"]["test"]
    sizes = result["interactions"]
    candidates = int(counts.true_negatives.sum()) + result["interactions"]["test"]
    assert candidates == result["users"] * sizes["items"] - sizes["train"]
    # The groups are plain to see, so items of the user's own group are weighed least.
    assert report["by_logit"]["roc_auc"] > 0.8
    for row in report["candidates"]["anchors"]:
        group = int(row["user"].removeprefix("u-")) % 3
        assert int(row["down"][0].removeprefix("film ")) % 3 == group
        assert int(row["up"][0].removeprefix("film ")) % 3 != group


def test_what_weighs_no_candidates_cannot_be_inspected(bayescl, bought) -> None:
    for options, message in (
        ("--loss bpr --epochs 1", "the loss bpr does not weight candidates"),
        ("--encoder popularity", "popularity holds the baseline popularity, which has no loss"),
    ):
        out = options.split()[1]
        line = f"train ranking {COLUMNS} {options} --device cpu --out {out}"
        assert bayescl(line).status == 0
        assert message in bayescl(f"inspect {out}").complaint

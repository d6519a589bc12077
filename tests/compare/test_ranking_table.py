"""The ranking table: plans, the paper's figures, Markdown, differences, and the page."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from quotes import refreshed
from ranking_data import write_groups

from bayescl_lab.compare.ranking_plans import (
    RankingCell,
    RankingPlan,
    RankingRequest,
    plan_for,
    smoke,
)
from bayescl_lab.compare.tuning import name_of, settings_of
from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PAPER
from bayescl_lab.paper.ranking.reproduction import reproduce_cell
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.metrics import METRICS as MEASURED
from bayescl_lab.report.figures import collect
from bayescl_lab.report.ranking import against_paper, cell_markdown, read_cells, tables_markdown
from bayescl_lab.report.tables import paired_differences
from bayescl_lab.runs.losses import ranking_loss
from bayescl_lab.runs.ranking.settings import BASELINES, RankingSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ranking.md"
RESULTS = ROOT / "results" / "ranking"


def made_up(
    data: str = "ml-100k, author split", encoder: str = "mf", **values: list[float]
) -> dict:
    """A cell whose runs all came to the given figures, seed by seed."""
    losses = values or {"info_nce": [0.5, 0.52], "bayesian": [0.53, 0.54]}
    names = [f"{metric}@{k}" for k in (5, 10, 20) for metric in MEASURED]
    settings = RankingSettings(encoder=encoder, loss=ranking_loss("hard")).as_config()

    def entry(seeds: list[float]) -> dict:
        spread = statistics.stdev(seeds) if len(seeds) > 1 else None
        return {"mean": statistics.fmean(seeds), "spread": spread, "values": seeds}

    return {
        "data": data,
        "encoder": encoder,
        "seeds": len(next(iter(losses.values()))),
        "evaluated_on": "test",
        "interactions": {"users": 943, "items": 1682, "train": 80000, "test": 20000},
        "users": 940,
        "users_left_out": 3,
        "tuning": {"losses": {loss: {"scores": {"a": {}, "b": {}}} for loss in losses}},
        "losses": {
            loss: {
                "metrics": {name: entry(seeds) for name in names},
                "epochs": 7,
                "seconds_per_epoch": entry([1.5]),
                "settings": settings,
            }
            for loss, seeds in losses.items()
        },
        "baselines": {
            name: {"metrics": {metric: entry([0.25]) for metric in names}} for name in BASELINES
        },
    }


def test_the_papers_table_is_whole_and_its_misprint_stands_out():
    assert len(PAPER) == 5 * 2 * 4
    for (data, encoder, loss), row in PAPER.items():
        assert list(row) == list(METRICS)
        for metric, value in row.items():
            # Hits can only grow with k, and NDCG stays near its neighbours; but for the misprint.
            if metric.startswith("ndcg") and (data, encoder, loss, metric) not in MISPRINTS:
                others = [row[f"ndcg@{k}"] for k in (5, 10, 20)]
                typical = statistics.median(others)
                assert abs(value - typical) < 0.2 * typical
        assert row["recall@5"] < row["recall@10"] < row["recall@20"]
        assert row["precision@5"] > row["precision@10"] > row["precision@20"]
    ((*place, metric),) = MISPRINTS
    row = PAPER[tuple(place)]
    assert row[metric] < 0.5 * min(row["ndcg@5"], row["ndcg@20"])


@pytest.mark.parametrize("encoder", ["mf", "lightgcn"])
@pytest.mark.parametrize("data", ["ml-100k", "gowalla", "yelp2018", "amazon-book", "my.csv"])
def test_every_plan_tries_as_many_settings_for_each_loss_and_never_looks_at_test(data, encoder):
    plan = plan_for(RankingData(data), encoder)
    sizes = {loss: len(settings_of(grid)) for loss, grid in plan.loss_grids.items()}
    assert len(set(sizes.values())) == 1
    assert {"info_nce", "bayesian"} <= sizes.keys()
    for loss, grid in plan.loss_grids.items():
        for values in settings_of(grid):
            tried = plan.tried(loss, values, plan.seeds[0])
            assert (tried.evaluate_on, tried.seed) == ("validation", plan.seeds[0])
            assert (tried.data.data, tried.encoder) == (data, encoder)
            assert tried.watch_every > 0
            final = plan.final(loss, values, epochs=3, seed=1, ranking={})
            assert (final.evaluate_on, final.watch_every, final.patience) == ("test", 0, 0)
            assert final.loss == tried.loss
    assert plan.seeds[0] not in range(100)


@pytest.fixture
def small(tmp_path) -> RankingPlan:
    """One setting for each loss, on a small table."""
    data = RankingData(str(write_groups(tmp_path)), user_column="customer", item_column="product")
    plan = smoke(plan_for(RankingData("ml-100k"), "mf"))
    assert all(len(settings_of(grid)) == 1 for grid in plan.loss_grids.values())
    assert plan.fixed.epochs == 2
    return replace(plan, fixed=replace(plan.fixed, data=data, dim=8, batch_size=6))


def test_what_ranks_best_on_validation_is_chosen_without_training_and_used_on_test(small, tmp_path):
    rankings = settings_of({"propagate": [0, 1], "item_norm_exponent": [0.0, 4.0]})
    plan = replace(small, rankings=rankings, regularizations=())
    request, done = RankingCell(plan, ("info_nce",), 1), []
    cell = reproduce_cell(
        request, tmp_path / "cell", progress=lambda _, __, epochs: done.append(epochs)
    )
    assert done == sorted(done)
    assert done[-1] <= request.most_epochs()
    tuned = cell["tuning"]["losses"]["info_nce"]
    choice, scores = tuned["ranking"]["choice"], tuned["ranking"]["scores"]
    (tried,) = tuned["scores"].values()
    assert scores["propagate0-item_norm_exponent0"] == pytest.approx(tried["score"]["mean"])
    assert len(scores) == 4
    assert len(set(scores.values())) > 1
    assert scores[name_of(choice)] == max(scores.values())
    final = cell["losses"]["info_nce"]["settings"]
    assert {name: final[name] for name in choice} == choice


def test_baselines_can_be_added_to_a_finished_cell_and_are_fitted_once_for_two(small, tmp_path):
    plan = replace(small, regularizations=(1.0, 100.0), ials_settings=())
    shared = tmp_path / "baselines"

    def made(plan: RankingPlan, name: str) -> dict:
        request = RankingCell(plan, ("info_nce",), 1)
        return reproduce_cell(request, tmp_path / name, baselines=shared)

    def times(folder: Path) -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in folder.rglob("result.json")}

    before = made(plan, "cell")
    assert before["baselines"].keys() == {"popularity", "ease"}
    assert before["remarks"] == []
    done = times(tmp_path)
    plan = replace(plan, ials_settings=[{"regularization": one} for one in (0.01, 100.0)])
    cell = made(plan, "cell")
    assert cell["losses"] == before["losses"]
    ials = cell["baselines"]["ials"]
    assert ials["settings"]["dim"] == 8
    assert ials["settings"]["regularization"] == ials["tuning"]["choice"]["regularization"] == 0.01
    assert ials["metrics"]["recall@20"]["mean"] > 0.9
    assert "| iALS |" in cell_markdown(cell)
    assert done.items() < times(tmp_path).items()
    done = times(shared)
    made(plan, "other")
    assert times(shared) == done


def test_ease_is_left_out_with_a_remark_where_it_does_not_fit(small, tmp_path, monkeypatch):
    monkeypatch.setattr("bayescl_lab.ranking.ease.usable_memory", lambda: 2000)
    cell = reproduce_cell(RankingCell(small, ("info_nce",), 1), tmp_path / "cell")
    assert cell["baselines"].keys() == {"popularity", "ials"}
    (remark,) = cell["remarks"]
    assert remark.startswith("EASE is left out: EASE of 24 items needs")


def test_a_loss_without_settings_in_the_plan_is_refused():
    with pytest.raises(ValueError, match="has settings for info_nce, bayesian, not bpr"):
        RankingCell(plan_for(RankingData("gowalla"), "mf"), ("bpr",), seeds=1)
    request = RankingRequest(data=("gowalla",), encoders=("mf",), seeds=2)
    (cell,) = request.cells()
    assert (cell.losses, cell.name) == (("info_nce", "bayesian"), "gowalla-mf")
    assert cell.most_epochs() == 2 * 2 * 6 + 2 * 2 * 20
    (quick,) = replace(request, size="smoke").cells()
    assert quick.most_epochs() == 2 * 2 + 2 * 2 * 2


def test_ours_stand_beside_the_papers_and_the_misprint_is_marked():
    text = cell_markdown(made_up())
    row = next(line for line in text.splitlines() if line.startswith("| Bayesian"))
    assert ".5350 ± .0071 (.4374)" in row  # P@5
    assert "| popularity | .2500 |" in text
    assert "3 have none and are left out" in text
    misprinted = cell_markdown(made_up("ml-1m", "lightgcn"))
    assert "(.1893, misprint)" in misprinted


def test_the_papers_figures_never_stand_beside_those_of_lightgcns_split():
    text = cell_markdown(made_up("gowalla"))
    assert "(" not in next(line for line in text.splitlines() if line.startswith("| Bayesian"))
    assert "another split" in text
    assert "| *published: LightGCN, BPR* |" in text
    assert against_paper(made_up("gowalla")) == ""
    assert "published" not in cell_markdown(made_up())


def test_differences_are_taken_seed_by_seed():
    cell = made_up(info_nce=[0.50, 0.60], bayesian=[0.51, 0.61], hard=[0.49, 0.63])
    found = paired_differences(cell)
    assert [found[loss]["ndcg@20"]["sign"] for loss in ("bayesian", "hard")] == [1, 0]
    text = cell_markdown(cell)
    assert "| Bayesian | **+0.0100 ± 0.0000** | **+0.0100 ± 0.0000** |" in text
    single = made_up(info_nce=[0.5], bayesian=[0.6])
    assert paired_differences(single)["bayesian"]["ndcg@20"]["sign"] == 0
    assert "paired" not in cell_markdown(single)
    assert "One seed" in cell_markdown(single)


def test_figures_below_the_papers_are_named():
    assert against_paper(made_up()).startswith("18 of 18 figures are at or above")
    cell = made_up(info_nce=[0.5, 0.5], bayesian=[0.4, 0.4])
    assert "bayesian on precision@5 (-0.0374)" in against_paper(cell)
    # The misprint is held against nobody.
    assert "bayesian on ndcg@10" not in against_paper(made_up("ml-1m", "lightgcn"))


def test_cells_are_collected_in_the_papers_order(tmp_path):
    for name, data, encoder in [("g", "gowalla", "mf"), ("b", "ml-100k", "lightgcn")]:
        collect(tmp_path, name, made_up(data, encoder))
    collect(tmp_path, "a", made_up("ml-100k", "mf"))
    order = [(cell["data"], cell["encoder"]) for cell in read_cells(tmp_path)]
    assert order == [("ml-100k", "mf"), ("ml-100k", "lightgcn"), ("gowalla", "mf")]
    assert (tmp_path / "table.md").read_text() == tables_markdown(read_cells(tmp_path))
    assert (tmp_path / "ranking.png").stat().st_size > 10_000


def test_a_page_is_brought_up_to_date_from_the_cells(tmp_path):
    collect(tmp_path, "a", made_up())
    number = "<!-- quote: value a.json losses/bayesian/metrics/recall@20/mean:~.4f -->"
    text = f"It is (.9999{number}).\n<!-- quote: cell a.json -->\nyesterday\n<!-- /quote -->\n"
    once = refreshed(text, tmp_path)
    assert once.startswith(f"It is (.5350{number}).")
    assert "| Bayesian |" in once
    assert "yesterday" not in once
    assert refreshed(once, tmp_path) == once
    paired = "1<!-- quote: paired a.json bayesian ndcg@20/mean:~+.4f -->"
    rest = f"{paired} 2<!-- quote: value a.json losses/max/metrics/ndcg@20/mean:~.4f -->"
    assert re.findall(r"([+.\d]+)<!--", refreshed(rest, tmp_path)) == ["+.0250", ".5350"]


def test_the_page_and_the_table_are_made_of_the_committed_cells():
    text = PAGE.read_text(encoding="utf-8")
    assert refreshed(text, PAGE.parent) == text
    cells = read_cells(RESULTS)
    assert (RESULTS / "table.md").read_text(encoding="utf-8") == tables_markdown(cells)
    for cell in cells:
        assert {"command", "versions", "hardware", "commit", "commits_of_runs"} <= cell.keys()
        assert not any("+" in commit for commit in cell["commits_of_runs"])
        assert cell["tuning"]["criterion"].endswith("on the validation part")
        tried = cell["tuning"]["losses"].values()
        assert len({len(entry["scores"]) for entry in tried}) == 1

"""The ranking table: plans, the paper's figures, Markdown, differences, and the page."""

import re
import statistics
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from compare.results import cell
from quotes import refreshed

from bayescl_lab.compare.plan import run_plans
from bayescl_lab.compare.tuning import settings_of
from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.report.results import read_results
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.result import Result
from reproduction.printed import METRICS, MISPRINTS, RANKING
from reproduction.ranking_table import (
    CellPlan,
    RankingRequest,
    best_ranking,
    cell_plan,
    collect,
    table_markdown,
)

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction" / "results" / "ranking"


def test_the_papers_table_is_whole_and_its_misprint_stands_out():
    assert len(RANKING) == 5 * 2 * 4
    for (data, encoder, loss), row in RANKING.items():
        assert list(row) == list(METRICS)
        for metric, value in row.items():
            # Hits can only grow with k, and NDCG stays near its neighbors; but for the misprint.
            if metric.startswith("ndcg") and (data, encoder, loss, metric) not in MISPRINTS:
                typical = statistics.median(row[f"ndcg@{k}"] for k in (5, 10, 20))
                assert abs(value - typical) < 0.2 * typical
        assert row["recall@5"] < row["recall@10"] < row["recall@20"]
        assert row["precision@5"] > row["precision@10"] > row["precision@20"]
    ((*place, metric),) = MISPRINTS
    row = RANKING[tuple(place)]
    assert row[metric] < 0.5 * min(row["ndcg@5"], row["ndcg@20"])


@pytest.mark.parametrize("encoder", ["mf", "lightgcn"])
@pytest.mark.parametrize("data", ["ml-100k", "gowalla", "yelp2018", "my.csv"])
def test_every_plan_tries_as_many_settings_for_each_loss_and_never_looks_at_test(data, encoder):
    (plan,) = RankingRequest((data,), encoders=(encoder,)).plans()
    (stage,) = plan.stages
    assert len({len(values) for values in stage.values()}) == 1
    assert {"info_nce", "bayesian"} <= stage.keys() == plan.methods.keys()
    for settings in plan.methods.values():
        assert (settings.data.data, settings.encoder) == (data, encoder)
        assert settings.evaluate_on == "test"
        if data in ("ml-100k", "my.csv"):
            assert plan.adapted(settings, Path()).epochs == settings.epochs
    assert not {*plan.tuning_seeds} & {*plan.seeds}


@pytest.fixture
def small(ranking_settings) -> CellPlan:
    """One setting for each loss, on a small table."""
    request = RankingRequest(losses=("info_nce",), seeds=1, size="smoke")
    plan = cell_plan(request, ranking_settings.data, "mf")
    settings = plan.methods["info_nce"]
    assert settings.epochs == 2
    return replace(plan, methods={"info_nce": replace(settings, dim=8, batch_size=6)})


def made(plan: CellPlan, out: Path, **options) -> Result:
    (result,) = run_plans("tables ranking", {}, [plan], out, **options)
    return result


def test_what_ranks_best_on_validation_is_chosen_without_training_and_used_on_test(small, tmp_path):
    rankings = settings_of({"propagate": [0, 1], "item_norm_exponent": [0.0, 4.0]})
    plan, done = replace(small, rankings=rankings, final_epochs=40), []
    result = made(plan, tmp_path / "cell", progress=lambda _, __, epochs: done.append(epochs))
    assert done == sorted(done)
    assert done[-1] <= plan.epochs
    (tried,) = (tmp_path / "cell/tuning").glob("*info_nce*")
    final = result.rows["info_nce"].settings
    assert best_ranking(tried, rankings).items() <= final.items()
    assert final["evaluate_on"] == "test"
    assert result.baselines.keys() == {"popularity", "ease", "ials"}
    assert result.baselines["ials"].scores["recall@20"].mean > 0.9
    assert "| iALS |" in table_markdown([result])
    assert result.remarks == ()


def test_the_split_of_the_papers_first_author_is_read_from_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    folder = tmp_path / "ml-100k/author-split"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("user,item,rating\n0,0,3\n1,1,4\n")
    (folder / "test.csv").write_text("user,item,rating\n0,1,3\n")
    (plan,) = RankingRequest(("ml-100k-author",), encoders=("mf",)).plans()
    assert (plan.name, plan.title) == ("ml-100k-author-mf", "ml-100k, author split")
    data = plan.methods["info_nce"].data
    parts = load_interactions(**asdict(data))
    assert parts.evaluation.num_interactions == 1


def test_a_loss_without_settings_in_the_plan_is_refused():
    with pytest.raises(ValueError, match="has settings for info_nce, bayesian, not bpr"):
        RankingRequest(("gowalla",), encoders=("mf",), losses=("bpr",)).plans()
    request = RankingRequest(data=("gowalla",), encoders=("mf",), seeds=2)
    (plan,) = request.plans()
    assert ([*plan.methods], plan.name) == (["info_nce", "bayesian"], "gowalla-mf")


def test_ours_stand_beside_the_papers_and_the_misprint_is_marked():
    text = table_markdown([cell()])
    row = next(line for line in text.splitlines() if line.startswith("| Bayesian"))
    assert ".5350 ± .0071 (.4374)" in row  # P@5
    assert "| popularity | .2500 |" in text
    assert "3 have none and are left out" in text
    misprinted = table_markdown([cell("ml-1m", "lightgcn")])
    assert "(.1893 [1])" in misprinted
    assert "[1] probably a misprint" in misprinted


def test_the_papers_figures_never_stand_beside_those_of_lightgcns_split():
    text = table_markdown([cell("gowalla")])
    assert "(" not in next(line for line in text.splitlines() if line.startswith("| Bayesian"))
    assert "another split" in text
    assert "| *published: LightGCN, BPR* |" in text
    assert "published" not in table_markdown([cell()])


def test_differences_are_taken_seed_by_seed():
    result = cell(info_nce=[0.50, 0.60], bayesian=[0.51, 0.61], hard=[0.49, 0.63])
    found = result.differences()
    assert [found[loss]["ndcg@20"].sign for loss in ("bayesian", "hard")] == [1, 0]
    text = table_markdown([result])
    row = next(line for line in text.splitlines() if line.startswith("| Bayesian"))
    assert row.endswith("| **+0.0100 ± 0.0000** |")
    assert "Bold differences" in text
    single = table_markdown([cell(info_nce=[0.5], bayesian=[0.6])])
    assert "Bold differences" not in single
    assert "One seed" in single


def test_cells_are_collected_in_the_papers_order_and_quoted(tmp_path):
    for name, data, encoder in [("g", "gowalla", "mf"), ("b", "ml-100k", "lightgcn")]:
        collect(tmp_path, name, cell(data, encoder))
    collect(tmp_path, "a", cell("ml-100k", "mf"))
    cells = read_results(tmp_path)
    order = [(one.data, one.encoder) for one in cells]
    assert order == [("ml-100k", "mf"), ("ml-100k", "lightgcn"), ("gowalla", "mf")]
    assert (tmp_path / "table.md").read_text() == table_markdown(cells)
    assert (tmp_path / "ranking.png").stat().st_size > 10_000

    number = "<!-- quote: value a.json losses/bayesian/metrics/recall@20/mean:~.4f -->"
    block = "<!-- quote: text overview.md -->\nyesterday\n<!-- /quote -->\n"
    text = f"It is (.9999{number}).\n{block}"
    once = refreshed(text, tmp_path)
    assert once.startswith(f"It is (.5350{number}).")
    assert "|  | InfoNCE | Bayesian | popularity | EASE |" in once
    assert "| ml-100k, LightGCN | .5100 ± .0141 (.3976) | .5350 ± .0071 (.4347) | .2500 |" in once
    assert "yesterday" not in once
    assert refreshed(once, tmp_path) == once
    paired = "1<!-- quote: paired a.json bayesian ndcg@20/mean:~+.4f -->"
    rest = f"{paired} 2<!-- quote: value a.json losses/max/metrics/ndcg@20/mean:~.4f -->"
    assert re.findall(r"([+.\d]+)<!--", refreshed(rest, tmp_path)) == ["+.0250", ".5350"]


def test_the_table_is_made_of_the_committed_cells():
    cells = read_results(RESULTS)
    assert (RESULTS / "table.md").read_text(encoding="utf-8") == table_markdown(cells)
    for file in RESULTS.glob("*.json"):
        content = read_json(file)
        assert {"command", "versions", "hardware", "commit", "commits_of_runs"} <= content.keys()
        assert not any("+" in commit for commit in content["commits_of_runs"])
    for one in cells:
        assert one.criterion.endswith("on the validation part")  # as the cells were written
        assert len({len(row.tuning.scores) for row in one.rows.values()}) == 1

"""The paper's image tables: its figures, the settings of their rows, and their plans."""

from dataclasses import replace
from pathlib import Path

import pytest

from bayescl_lab.compare.encoders import EncoderPlan
from bayescl_lab.compare.plan import run_plans
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.losses import LossSettings, has_hyperparameter
from bayescl_lab.runs.result import Result, Row, Score
from reproduction.image_tables import DATASETS, TABLES, TablePlan, TableRequest
from reproduction.printed import Printed

PAPER = TableRequest("paper", device="cpu")


def plan_of(name: str, request: TableRequest = PAPER) -> TablePlan:
    (plan,) = request.plans([TABLES[name]])
    return plan


def printed(name: str) -> dict[tuple[str, ...], Printed]:
    """The paper's top-1 figures by the keys of their rows."""
    rows = plan_of(name).rows.values()
    return {tuple(row.keys.values()): row.printed["linear"] for row in rows}


def made_up(plan: TablePlan) -> Result:
    """A finished table with equal values in all runs."""
    row = Row({one: Score.of([0.5, 0.5]) for one in plan.measures}, seconds=Score.of([2, 2.1]))
    return Result(rows=dict.fromkeys(plan.rows, row), seeds=2, remarks=plan.remarks)


def test_the_papers_tables_agree_on_cifar10_and_contradict_one_another_on_stl10():
    by_n, by_beta, main = printed("negatives"), printed("hardness"), printed("multiclass")
    assert by_n["CIFAR10", "Bayesian", "510"] == by_beta["CIFAR10", "0.9"]
    figures = [
        by_n["STL10", "Bayesian", "510"],
        by_beta["STL10", "1.0"],
        main["STL10", "Bayesian"],
    ]
    assert [figure.value for figure in figures] == [87.65, 86.51, 87.7]
    for figure in figures:
        others = [f"{other.value:g}" for other in figures if other is not figure]
        assert all(other in figure.note for other in others)
    names = {"negatives": "STL10-Bayesian-510", "hardness": "STL10-1.0"}
    same = [plan_of(name).methods[row] for name, row in names.items()]
    assert same == [plan_of("multiclass").methods["STL10-Bayesian"]] * 2
    tables = ("binary", "multiclass", "negatives", "hardness")
    noted = [figure for name in tables for figure in printed(name).values() if figure.note]
    assert len(noted) == 3


@pytest.mark.parametrize("size", ["smoke", "paper"])
@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_a_table_have_the_settings_that_they_say(name, size):
    rows = list(TABLES[name].rows(size))
    assert all(bool(row.printed) == (size == "paper") for row in rows)
    assert {row.settings.teacher for row in rows} == {"none"}
    if size == "paper":
        assert {row.settings.encoder for row in rows} == {"resnet50"}
        assert name == "runtime" or {row.settings.epochs for row in rows} == {400}
    for row in rows:
        settings = row.settings
        values = settings.loss.resolved()
        if name in ("negatives", "binary"):  # all rows but the anchor and its positive
            assert int(row.keys["N"]) == 2 * settings.batch_size - 2
        if name in ("binary", "multiclass") and has_hyperparameter(settings.loss.loss, "tau_plus"):
            classes = 2 if name == "binary" else DATASETS[settings.data]["classes"]
            assert values["tau_plus"] == 1 / classes
        if name == "binary":
            assert len(settings.classes.split(",")) == 2
            assert values.get("beta", 0.5) == 0.5
        if name == "prior":
            share = values["tau_plus"] * DATASETS[settings.data]["classes"]
            assert round(share, 3) in (0.2, 1.0, 2.0)
    if size == "smoke":
        run = ImageRun(replace(rows[0].settings, device="cpu"))
        assert run.parts.train.num_classes == (2 if name == "binary" else 10)


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_values_stand_beside_ours_at_its_size_and_nowhere_else(name):
    smoke = plan_of(name, TableRequest())
    page = smoke.markdown(made_up(smoke))
    assert "Smoke size" in page
    assert "In parentheses" not in page
    assert not any(row.printed for row in smoke.rows.values())
    paper = plan_of(name)
    page = paper.markdown(made_up(paper))
    assert "In parentheses" in page
    for row in paper.rows.values():
        for figure in row.printed.values():
            assert f"({figure.value:g}" in page
            assert figure.note in page
    fewer = plan_of(name, replace(PAPER, epochs=1))
    assert ("In parentheses" in fewer.markdown(made_up(fewer))) is False


@pytest.mark.parametrize("size", ["smoke", "paper"])
def test_the_page_says_how_many_runs_all_tables_take(size):
    plans = TableRequest(size, device="cpu").plans([*TABLES.values()])
    assert [plan.name for plan in plans] == list(TABLES)
    runs = {repr(run) for plan in plans if not plan.is_timed for run in plan.runs().values()}
    timed = [run for plan in plans if plan.is_timed for run in plan.runs()]
    page = (Path(__file__).parents[2] / "reproduction/README.md").read_text(encoding="utf-8")
    kind = {"smoke": "small runs", "paper": "runs"}[size]
    assert f"{len(runs) + len(timed)} {kind}" in page


def test_a_part_of_all_tables_leaves_out_those_that_have_none_of_it():
    some = replace(PAPER, datasets="tiny-imagenet,cifar100").plans([*TABLES.values()])
    assert [plan.name for plan in some] == ["binary", "multiclass", "prior"]
    assert {row.settings.data for row in some[-1].rows.values()} == {"tiny-imagenet"}
    with pytest.raises(ValueError, match="datasets must be one of"):
        replace(PAPER, datasets="digits").plans([*TABLES.values()])


def test_tables_share_runs(settings, tmp_path):
    few = replace(settings, epochs=1)
    methods = {loss: replace(few, loss=LossSettings(loss)) for loss in ("info_nce", "bayesian")}
    tiny = EncoderPlan(methods, range(2), name="tiny", measures=("linear",))
    other = replace(tiny, name="other", methods=dict(reversed(tiny.methods.items())))
    seen = []
    told = {"progress": lambda run, epoch, done: seen.append(done)}
    one, two = run_plans("tables", {}, [tiny, other], tmp_path / "both", **told)
    assert max(seen) == 4
    assert len(list((tmp_path / "both/runs").iterdir())) == 4
    assert list(two.rows) == list(one.rows)[::-1]
    assert two.rows["bayesian"].scores == one.rows["bayesian"].scores

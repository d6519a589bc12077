"""The paper's image tables: its figures, the settings of their cells, and the runner."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from runs.same_run import PowerCut

from bayescl_lab.paper.images.request import TableRequest
from bayescl_lab.paper.images.runner import (
    reproduce_table,
    reproduce_tables,
    runs_of_tables,
    summary_of,
)
from bayescl_lab.paper.images.sizes import NUM_CLASSES, SIZES
from bayescl_lab.paper.images.tables import TABLES, Cell, PaperFigure, PaperTable
from bayescl_lab.report.images import paper_markdown
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings, takes

PAPER = TableRequest("paper", device="cpu")


def printed(name: str) -> dict[tuple[str, ...], PaperFigure]:
    """The paper's top-1 figures by the keys of their cells."""
    cells = TABLES[name].cells("paper")
    return {tuple(cell.keys.values()): cell.paper["linear"] for cell in cells}


def made_up(table: PaperTable, request: TableRequest, *, accuracy: float = 0.5) -> dict:
    """A finished table whose runs all came to the same figures, but for seconds."""
    runs = request.runs(table)
    results = {
        name: {
            "probes": dict.fromkeys(("linear", "linear_top5", "few_label_1"), accuracy),
            "seconds_per_epoch": 2.0 + 0.1 * (settings.loss.loss == "bayesian"),
        }
        for name, settings in runs.items()
    }
    origin = {
        "command": "bayescl reproduce",
        "commit": None,
        "hardware": {"gpu": None, "cpu": "one", "cores": 2},
        "versions": {"torch": "2"},
    }
    return {**summary_of(table, request, results), **origin}


@pytest.mark.parametrize(
    ("data", "gain"), [("CIFAR10", 0.2), ("STL10", 1.0), ("CIFAR100", 1.3), ("tinyImageNet", 2.0)]
)
def test_the_gains_that_the_papers_text_names_for_two_classes_are_those_of_the_table(data, gain):
    figures = printed("binary")
    difference = figures[data, "Bayesian", "510"].value - figures[data, "InfoNCE", "510"].value
    assert difference == pytest.approx(gain)


def test_the_papers_tables_agree_on_cifar10_and_contradict_one_another_on_stl10():
    by_n, by_beta, main = printed("negatives"), printed("hardness"), printed("multiclass")
    assert by_n["CIFAR10", "Bayesian", "510"] == by_beta["CIFAR10", "0.9"]
    same = {
        "negatives": ("STL10", "Bayesian", "510"),
        "hardness": ("STL10", "1.0"),
        "multiclass": ("STL10", "Bayesian"),
    }
    figures = [by_n[same["negatives"]], by_beta[same["hardness"]], main[same["multiclass"]]]
    assert [figure.value for figure in figures] == [87.65, 86.51, 87.7]
    for figure in figures:
        others = [f"{other.value:g}" for other in figures if other is not figure]
        assert all(other in figure.note for other in others)
    settings = {
        repr(cell.settings)
        for name, keys in same.items()
        for cell in TABLES[name].cells("paper")
        if tuple(cell.keys.values()) == keys
    }
    assert len(settings) == 1
    names = ("binary", "multiclass", "negatives", "hardness")
    noted = [figure for name in names for figure in printed(name).values() if figure.note]
    assert len(noted) == 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", TABLES)
def test_the_cells_of_a_table_have_the_settings_that_their_rows_say(name, size):
    cells = TABLES[name].cells(size)
    assert len({cell.name for cell in cells}) == len(cells)
    assert all(bool(cell.paper) == (size == "paper") for cell in cells)
    if size == "paper":
        assert {cell.settings.encoder for cell in cells} == {"resnet50"}
        assert name == "runtime" or {cell.settings.epochs for cell in cells} == {400}
    for cell in cells:
        settings, values = cell.settings, cell.settings.loss.resolved()
        if name in ("negatives", "binary"):  # all rows but the anchor and its positive
            assert int(cell.keys["N"]) == 2 * settings.batch_size - 2
        if name in ("binary", "multiclass") and takes(settings.loss.loss, "tau_plus"):
            classes = 2 if name == "binary" else NUM_CLASSES[settings.data]
            assert values["tau_plus"] == 1 / classes
        if name == "binary":
            assert settings.classes == ("3,8" if size == "smoke" else "2")
            assert values.get("beta", 0.5) == 0.5
    if size == "smoke":
        run = ImageRun(replace(cells[0].settings, device="cpu"))
        assert run.parts.train.num_classes == (2 if name == "binary" else 10)


def test_the_priors_of_a_smoke_test_are_the_papers_multiples_of_one_over_the_classes():
    shares = [
        [
            cell.settings.loss.resolved()["tau_plus"] * NUM_CLASSES[cell.settings.data]
            for cell in TABLES["prior"].cells(size)
        ]
        for size in SIZES
    ]
    assert shares[0] == pytest.approx(shares[1])


@pytest.mark.parametrize("name", TABLES)
def test_a_smoke_test_shows_none_of_the_papers_values_and_says_what_it_is(name):
    table = TABLES[name]
    smoke, paper = made_up(table, TableRequest()), made_up(table, PAPER)
    assert all(not cell["paper"] for cell in smoke["cells"])
    assert "Smoke size" in paper_markdown(smoke)
    page = paper_markdown(paper)
    for cell in table.cells("paper"):
        for figure in cell.paper.values():
            assert f"| {figure.value:g}" in page
            assert figure.note in page


def test_the_papers_values_go_when_the_epochs_are_not_its_own():
    table = TABLES["multiclass"]
    assert made_up(table, replace(PAPER, epochs=400))["is_comparable"]
    short = made_up(table, replace(PAPER, epochs=20))
    assert all(not cell["paper"] for cell in short["cells"])
    assert short["remarks"][0].startswith("20 epochs: ")
    few = made_up(table, replace(PAPER, max_train_images=900))
    assert all(not cell["paper"] for cell in few["cells"])
    assert few["remarks"][0].startswith("at most 900 images: ")


def test_the_ratio_of_seconds_is_taken_pair_by_pair():
    remarks = made_up(TABLES["runtime"], TableRequest())["remarks"]
    assert any("takes 1.050 ± 0.000 times as long" in remark for remark in remarks)


@dataclass(frozen=True)
class Tiny(PaperTable):
    """Two losses on ninety images, with something in the paper's column."""

    settings: ImageSettings | None = None

    def cells(self, size: str) -> list[Cell]:
        return [
            Cell(
                keys={"data set": "shapes", "loss": loss},
                settings=replace(self.settings, loss=LossSettings(loss), epochs=1),
                paper={"linear": PaperFigure(91.0)},
            )
            for loss in self.losses
        ]


@pytest.fixture
def tiny(settings) -> PaperTable:
    return Tiny("tiny", "Tiny", "none", losses=("info_nce", "bayesian"), settings=settings)


def test_a_table_cut_off_and_resumed_equals_the_unbroken_one(tiny, tmp_path):
    request = TableRequest(device="cpu")
    whole = reproduce_table(tiny, request, tmp_path / "whole")
    assert whole["cells"][0]["measures"]["linear"]["values"] == [
        100 * json.loads(file.read_text())["probes"]["linear"]
        for file in sorted((tmp_path / "whole/runs").glob("*info_nce*/result.json"))
    ]

    def cut(name: str, epoch: int, total: int) -> None:
        if total == 3:
            raise PowerCut

    with pytest.raises(PowerCut):
        reproduce_table(tiny, request, tmp_path / "cut", progress=cut)
    finished = sorted((tmp_path / "cut").rglob("result.json"))
    before = [file.stat().st_mtime_ns for file in finished]
    assert before
    assert not (tmp_path / "cut/result.json").exists()
    resumed = reproduce_table(tiny, request, tmp_path / "cut", resume=True)
    assert [file.stat().st_mtime_ns for file in finished] == before
    assert resumed["cells"] == whole["cells"]
    pages = [paper_markdown(read_json(tmp_path / run / "result.json")) for run in ("cut", "whole")]
    assert pages[0].startswith("# Tiny")
    assert pages[0] == pages[1]
    with pytest.raises(ValueError, match="a resumed run keeps its settings"):
        reproduce_table(tiny, replace(request, seeds=5), tmp_path / "cut", resume=True)


@pytest.mark.parametrize("size", SIZES)
def test_all_tables_train_each_setting_once_and_leave_none_out(size):
    request = TableRequest(size, device="cpu")
    plan = runs_of_tables(list(TABLES.values()), request)
    assert list(plan) == list(TABLES)
    untimed = [
        repr(settings)
        for name, runs in plan.items()
        for settings in runs.values()
        if not TABLES[name].is_timed
    ]
    assert len(set(untimed)) == len(untimed)
    wanted = {repr(settings) for name in TABLES for settings in request.runs(TABLES[name]).values()}
    assert {repr(settings) for runs in plan.values() for settings in runs.values()} == wanted
    assert plan["runtime"] == request.runs(TABLES["runtime"])
    page = (Path(__file__).parents[2] / "docs/images.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{size}`"))
    assert f"| {sum(map(len, plan.values()))} |" in row


def test_a_part_of_all_tables_leaves_out_those_that_have_none_of_it():
    tables = list(TABLES.values())
    some = replace(PAPER, datasets="tiny-imagenet,cifar100")
    assert [table.name for table in some.part_of(tables)] == ["binary", "multiclass", "prior"]
    assert {cell.settings.data for cell in some.cells(TABLES["prior"])} == {"tiny-imagenet"}


def test_tables_share_a_run_and_equal_those_made_alone(tiny, tmp_path):
    request = TableRequest(device="cpu", seeds=1)
    other = replace(tiny, name="other", losses=tiny.losses[::-1])
    alone = reproduce_table(other, request, tmp_path / "alone")
    seen, finished = [], []

    def cut(result: dict, path) -> None:
        finished.append(path.name)
        raise PowerCut

    with pytest.raises(PowerCut):
        reproduce_tables([tiny, other], request, tmp_path / "both", finished=cut)
    made = reproduce_tables(
        [tiny, other],
        request,
        tmp_path / "both",
        resume=True,
        progress=lambda run, epoch, done: seen.append(done),
        finished=lambda result, path: finished.append(path.name),
    )
    assert made["tables"] == ["tiny", "other"]
    assert finished == ["tiny", "tiny", "other"]
    assert max(seen) <= 2
    assert len(list((tmp_path / "both/tiny/runs").iterdir())) == 2
    assert not (tmp_path / "both/other/runs").exists()
    assert read_json(tmp_path / "both/other/result.json")["cells"] == alone["cells"]

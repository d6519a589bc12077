"""``bayescl report``: one page that loads nothing, shows what files hold as text, and fits."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bayescl_lab.cli import main
from bayescl_lab.report.html import page_of, report_page, section_of
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.result import Result, Row, Score
from bayescl_lab.runs.run import write_results

ROOT = Path(__file__).parents[3]
HOSTILE = "<script>alert('$x^{')</script>&\"><img src=http://evil.example>"


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def image_run(folder: Path, *, loss: str = "bayesian", data: str = "digits", finished: bool = True):
    settings = {"loss": loss, "data": data, "seed": 3, "evaluate_on": "test", "epochs": 2}
    run = RunFolder.create(folder, "train images", settings)
    if finished:
        row = Row({"few_label_1": Score(0.5, 0.1), "knn": Score(0.75)}, epochs=2)
        result = Result(data, "test", {loss: row}, 1, settings=settings)
        write_results(run.result_file, result, origin={"commit": "abc"})
    return run


def test_a_comparison_shows_its_tables_findings_and_figure_and_loads_nothing():
    page = report_page([ROOT / "results/digits"])
    elements = Elements(page)
    result = Result.read_file(ROOT / "results/digits/comparison.json")
    level = result.rows["oracle"].scores["few_label_1"]
    gain = result.differences()["oracle"]["few_label_1"]
    for text in (
        level.text(scale=100),
        gain.text("+.2f", scale=100),
        "bayescl compare images",
        "AMD EPYC",
    ):
        assert text in page
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in elements.found}
    for _, attributes in elements.found:
        assert (attributes.get("src") or "data:").startswith("data:image/png;base64,iVBOR") or (
            "src" not in attributes
        )
        assert "href" not in attributes
    assert not re.search(r"url\(|@import", page)


def test_a_run_shows_settings_scores_and_pictures(tmp_path):
    run = image_run(tmp_path / "a")
    picture = (ROOT / "results/digits/comparison.png").read_bytes()
    (run.path / "comparison.png").write_bytes(picture)
    (run.path / "other.png").write_bytes(picture)
    section = section_of(run.path)
    assert section.title == "Bayesian on digits"
    assert section.scores == {"1 label/class": "50.0 ± 10.0", "k-NN": "75.0"}
    assert section.settings["seed"] == 3
    assert [caption for caption, _ in section.pictures] == [
        "Every loss; a dot is a seed, a bar the mean over seeds.",
    ]


def test_a_folder_of_results_has_one_page():
    ranking = section_of(ROOT / "reproduction/results/ranking")
    page = page_of([ranking], "made by a test")
    assert ranking.title == "ranking"
    assert "yelp2018, matrix factorization" in page
    assert '<strong class="below">-0.' in page
    assert all(len(one.head) <= 6 for one in ranking.tables if "NDCG@20" in one.head)


def test_whatever_files_hold_is_text(tmp_path):
    folder = tmp_path / "<b>&`x`**y**"
    image_run(folder, data=HOSTILE.replace("/", "|"), loss=HOSTILE)
    result = Result.read_file(ROOT / "results/digits/comparison.json")
    rows = {HOSTILE if name == "hard" else name: row for name, row in result.rows.items()}
    comparison = replace(result, rows=rows, data=HOSTILE).stored()
    comparison["command"] = HOSTILE
    comparison["commit"] = None  # of an installed package
    comparison["started"] = "half a letter: \ud800"
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison/comparison.json").write_text(json.dumps(comparison))
    page = report_page([folder, tmp_path / "comparison"])
    elements = Elements(page)
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"script", "b"}
    assert HOSTILE in elements.text
    assert all(name not in ("onload", "onerror") for _, found in elements.found for name in found)
    assert "http:" not in "".join(value or "" for _, found in elements.found for value in found)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "there is no folder"),
        ({}, "contains no run and no results"),
        ({"result.json": "[1]"}, "result.json is damaged"),
        ({"result.json": '{"losses": {}}'}, "result.json is damaged"),
        ({"result.json": '{"results": [3]}'}, "result.json is damaged"),
        ({"result.json": '{"losses": {"hard": {"metrics": {"knn": "x"}}}}'}, "is damaged"),
        ({"result.json": '{"losses": {"hard": {"metrics": {}}}, "seeds": "x"}'}, "is damaged"),
        ({"comparison.json": '{"losses": {"a": {}, "b": {}}, "seeds": 2}'}, "is damaged"),
        ({"a.json": '{"losses": 1, "baselines": 2}'}, "a.json is damaged"),
        ({"config.yaml": "a: 1"}, "is not a run folder: its config.yaml is not from a run"),
    ],
)
def test_a_folder_that_cannot_be_told_of_gets_one_line(tmp_path, capsys, files, message):
    folder = tmp_path / "run"
    if files is not None:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content)
    assert main(["report", str(folder)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "report.html").exists()


def test_the_command_writes_into_the_folder_or_where_it_is_told(tmp_path, capsys):
    run = image_run(tmp_path / "a")
    assert main(["report", str(run.path)]) == 0
    assert "report:" in capsys.readouterr().out
    written = (run.path / "report.html").read_bytes()
    assert main(["report", str(run.path), "--out", str(tmp_path / "b.html")]) == 0
    assert (tmp_path / "b.html").read_bytes() == written
    assert main(["report", str(run.path), "--out", "b.txt"]) == 2
    assert main(["report"]) == 2

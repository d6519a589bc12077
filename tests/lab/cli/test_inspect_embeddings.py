"""``bayescl inspect``: runs, and embeddings of users, well-formed and damaged."""

import html
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.measures import diagnose_embeddings
from bayescl_lab.inspect.suspects import find_suspects


def arrays() -> dict[str, np.ndarray]:
    """Two views of 240 items in four classes, and their labels."""
    generator = np.random.default_rng(0)
    labels = np.arange(240) % 4
    items = generator.normal(size=(4, 8))[labels] + 0.4 * generator.normal(size=(240, 8))
    first, second = (items + 0.1 * generator.normal(size=(240, 8)) for _ in range(2))
    return {
        "embeddings": first.astype(np.float32),
        "second_view": second.astype(np.float32),
        "labels": labels,
    }


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are made but not drawn, which takes longer than all else."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)


def figures(name: str = "page.json") -> dict:
    return json.loads(Path(name).read_text())


def test_a_file_gives_a_table_a_page_and_figures_and_needs_no_run(bayescl):
    given = arrays()
    np.savez("all.npz", **given)
    outcome = bayescl("inspect all.npz --batch-size 40")
    for words in ("false negatives of an anchor", "agreement of views", "alpha"):
        assert words in outcome.out
    names = ["all-inspection.html", "all-inspection.json", "all.npz"]
    assert sorted(path.name for path in Path().iterdir()) == names
    page = Path("all-inspection.html").read_text()
    assert page.count("<img") == 1
    assert "240 embeddings" in page
    assert outcome.out.splitlines()[-1] in html.unescape(page)
    # The command gives the results of the function.
    found = diagnose_embeddings(**given, batch_size=40)
    report = figures("all-inspection.json")
    assert report.pop("advice")["loss"] == "SupervisedContrastiveLoss()"
    assert report.pop("measured") == "the embeddings of the file"
    assert report == json.loads(json.dumps(found.figures()))


PLAIN, PAIRS = "InfoNCELoss(temperature=0.2)", "InfoNCELoss(temperature=0.1, positive_share=0.8)"
NUISANCE = "InfoNCELoss(temperature=0.5)"


@pytest.mark.parametrize(
    ("names", "options", "recommendation"),
    [
        ("whatever", "", f"{PLAIN}, called as loss(view_1, view_2, teacher=unaugmented)"),
        ("embeddings y", "--labels y", "SupervisedContrastiveLoss(), called as loss(view_1, vi"),
        ("embeddings batch", "--by batch", f"{NUISANCE}, called as loss(view_1, view_2, domains"),
        (
            "queries documents labels",
            "",
            f"{PAIRS}, called as loss.in_batch(queries, documents, labels=labels)",
        ),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_it_ends_with_a_recommendation(bayescl, names, options, recommendation):
    first, second, labels = arrays().values()
    known = {"documents": second, "labels": labels, "y": labels, "batch": labels}
    np.savez("mine.npz", **{name: known.get(name, first) for name in names.split()})
    lines = bayescl(f"inspect mine.npz {options}").out.splitlines()
    assert lines[-1].startswith(f"Recommendation: use loss = {recommendation}")


@pytest.mark.usefixtures("undrawn")
def test_every_format_and_byte_order_gives_the_same_figures(bayescl):
    first, second, labels = arrays().values()
    np.savez("a.npz", view_1=first, view_2=second.astype(">f8"), label=labels)
    other = pl.Series(second.tolist(), dtype=pl.List(pl.Float32))
    columns = {"embedding": first, "second_view": other, "label": [f"c {it}" for it in labels]}
    pl.DataFrame({"id": np.arange(240), **columns}).write_parquet("b.parquet")
    np.save("<script>alert(1)<[bold].npy", first.astype(np.float16))
    found = []
    for source in ("a.npz", "b.parquet", "<script>alert(1)<[bold].npy"):
        assert bayescl(f"inspect '{source}' --out page.html").status == 0
        found.append([figures()["tau_plus"], figures()["neighborhood"]["effective_dim"]])
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0][1] == pytest.approx(found[2][1], rel=1e-2)
    assert "<script>" not in Path("page.html").read_text()


BAD = [
    ("objects.npy", "cannot read objects.npy: it contains Python objects"),
    ("objects.npz", "cannot read objects.npz: it contains Python objects"),
    ("names.npz", "it needs an array called embeddings, but has a, b"),
    ("good.npz --labels c", "it needs an array called c, but has embeddings, short, wide, halves"),
    ("words.npy", "words.npy: embeddings must contain real numbers"),
    ("holes.npy", "got NaN or infinity in 2 of 240 rows (first: row 7)"),
    ("ragged.parquet", "cannot read ragged.parquet: embedding has rows of different lengths"),
    ("null.parquet", "got NaN or infinity in 1 of 5 rows (first: row 1)"),
    ("words.parquet", "embeddings must contain real numbers"),
    ("table.csv", "table.csv must end in .npy, .npz, .parquet"),
    ("nowhere.npy", "there is no file nowhere.npy"),
    ("folder.npy", "folder.npy is not a run folder"),
    ("good.npz --labels halves", "good.npz: labels must be integers or strings"),
    ("good.npz --out page.txt", "out must end in .html"),
    ("good.npz --out nowhere/page.html", "there is no folder nowhere"),
    ("good.npz --data photos", "--data applies only to run folders, got good.npz"),
    ("folder.npy --labels short", "--labels applies only to files of embeddings, got folder.npy"),
    ("rows.npy --suspects list.txt", "suspects must end in .csv"),
    ("rows.npy --teacher few.npy", "--teacher needs --suspects"),
    ("rows.npy --documents few.npy", "second_view must have shape [240, 8], got [5, 8]"),
    (
        "rows.npy --suspects a.csv --teacher few.npy",
        "teacher must have 240 rows, one per item, got",
    ),
    ("texts.npz", "texts must have one value per row"),
]


def test_a_bad_file_is_answered_in_one_line_and_leaves_nothing(refused):
    first, _, labels = arrays().values()
    holes = first.copy()
    holes[[7, 9], 2] = np.nan
    wide = first[:, :5]
    np.savez("objects.npz", embeddings=np.array([[1, "a"]], dtype=object))
    np.savez("names.npz", a=first, b=first)
    np.savez("good.npz", embeddings=first, short=labels[:100], wide=wide, halves=labels + 0.5)
    np.save("objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    np.save("words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save("holes.npy", holes)
    np.save("rows.npy", first)
    np.save("few.npy", first[:5])
    np.savez("texts.npz", embeddings=first, texts=["a"])
    for name, rows in {
        "ragged": [[1.0, 2.0], [1.0]],
        "null": [[1.0, 2.0], None, *[[1.0, 2.0]] * 3],
        "words": ["a", "b"],
    }.items():
        pl.DataFrame({"embedding": rows}).write_parquet(f"{name}.parquet")
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("folder.npy").mkdir()
    refused((f"inspect {options}", message) for options, message in BAD)


def test_codes_of_no_item_are_none(bayescl):
    columns = {"label": [-1] * 240, "domain": [""] * 240}
    pl.DataFrame({"embedding": arrays()["embeddings"], **columns}).write_parquet("a.parquet")
    assert bayescl("inspect a.parquet --out page.html").status == 0
    assert figures()["tau_plus"] is figures()["neighborhood"]["same_domain"] is None


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_a_table_for_a_spreadsheet(bayescl):
    given = arrays()
    texts = [f"=cmd|'/C calc'!A{row}" for row in range(240)]
    np.savez(
        "pairs.npz",
        queries=given["embeddings"],
        documents=given["second_view"],
        query_texts=texts,
        document_texts=[f"document {row}" for row in range(240)],
        ids=[f"-id {row}" for row in range(240)],
    )
    outcome = bayescl("inspect pairs.npz --suspects list.csv")
    frame = pl.read_csv("list.csv")
    assert frame.columns == [
        *("query", "query_id", "query_text", "document", "document_id", "document_text"),
        *("similarity", "positive_similarity", "probability", "rule"),
    ]
    query, document = frame.row(0)[0], frame.row(0)[3]
    found = find_suspects(EmbeddingArrays(given["embeddings"], given["second_view"]))
    assert (query, document) == (found.anchors[0], found.candidates[0])
    assert frame["query_text"][0] == f"'=cmd|'/C calc'!A{query}"
    assert frame["query_id"][0] == f"'-id {query}"
    assert frame["document_text"][0] == f"document {document}"
    assert outcome.out.count("document ") >= 10
    assert f"suspects: list.csv ({len(frame):,} lines)" in outcome.out
    # Two files give the same list.
    np.save("q.npy", given["embeddings"])
    np.save("d.npy", given["second_view"])
    assert bayescl("inspect q.npy --documents d.npy --suspects two.csv").status == 0
    two = pl.read_csv("two.csv")
    assert two.equals(frame.select(two.columns))


@pytest.fixture
def run(trained, bars) -> str:
    """A run of the Bayesian loss on bars."""
    line = f"train images {bars} --loss bayesian --epochs 2 --alpha 0.8 --beta 0.5 --tau_plus 0.3"
    return trained("bayesian", line)


def test_a_run_is_inspected_on_a_page_and_training_is_not_touched(bayescl, run):
    before = Path("run/checkpoints/last.ckpt").read_bytes()
    outcome = bayescl("inspect run")
    for words in ("false negatives of an anchor", "page: run/inspection.html"):
        assert words in outcome.out
    report = json.loads(Path("run/inspection.json").read_text())
    assert f"use loss = {report['advice']['loss']}" in outcome.out
    assert Path("run/checkpoints/last.ckpt").read_bytes() == before
    assert Path("run/inspection.html").read_text().count("<img") == 1
    assert report["items"] == report["labeled_items"] == 63
    assert report["batch_size"] == 20
    outcome = bayescl("inspect run --suspects list.csv")
    assert "suspects: list.csv" in outcome.out
    columns = pl.read_csv("list.csv").columns
    assert {"anchor_id", "candidate_id", "same_label"} < set(columns)
    with Image.open("list.png") as picture:
        assert len(set(picture.convert("L").tobytes())) > 20  # images, not an empty page

"""``bayescl inspect FILE``: anybody's embeddings, well-meant and hostile."""

from __future__ import annotations

import html
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bayescl_lab.inspect.measures import diagnose_embeddings, plain

QUICK = "--batch-size 40 --items 80"


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


def figures(name: str = "all-inspection.json") -> dict:
    return json.loads(Path(name).read_text())


def test_a_file_gives_tables_a_page_and_figures_and_needs_no_run(bayescl) -> None:
    given = arrays()
    np.savez("all.npz", **given)
    outcome = bayescl(f"inspect all.npz {QUICK} --seed 3 --temperature 0.2")
    for words in ("false negatives of an anchor", "oracle", "repulsion", "\nWith InfoNCE "):
        assert words in outcome.out
    names = ["all-inspection.html", "all-inspection.json", "all.npz"]
    assert sorted(path.name for path in Path().iterdir()) == names
    page = Path("all-inspection.html").read_text()
    assert page.count("<img") == 1
    assert "240 embeddings" in page
    assert outcome.out.splitlines()[-1] in html.unescape(page)
    # The command says what the function says.
    known = {name: given[name] for name in ("second_view", "labels")}
    options = {"batch_size": 40, "items": 80, "seed": 3, "temperature": 0.2}
    found = diagnose_embeddings(given["embeddings"], **known, **options)
    report = figures()
    assert report.pop("advice")["loss"].startswith("BayesianContrastiveLoss(temperature=0.2, ")
    assert report.pop("measured") == "the embeddings of the file"
    assert report == json.loads(json.dumps(plain(found)))


@pytest.mark.parametrize(
    ("names", "options", "call"),
    [
        ("whatever", "", "loss(view_1, view_2, teacher=plain)"),
        ("embeddings labels", "", "loss(view_1, view_2, labels=labels, teacher=plain)"),
        ("embeddings batch", "--by batch", "loss(view_1, view_2, domains=domains, teacher=plain)"),
        (
            "q d labels",
            "--queries q --documents d",
            "loss.in_batch(queries, documents, labels=labels, teacher=documents.detach())",
        ),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_it_ends_with_a_recommendation(bayescl, names, options, call) -> None:
    first, second, labels = arrays().values()
    known = {"d": second, "labels": labels, "batch": labels}
    np.savez("mine.npz", **{name: known.get(name, first) for name in names.split()})
    last = bayescl(f"inspect mine.npz {options} {QUICK}").out.splitlines()[-1]
    assert last.startswith("Recommendation: use loss = BayesianContrastiveLoss(")
    assert last.endswith(f"called as {call}")


@pytest.mark.usefixtures("undrawn")
def test_labels_are_named_in_the_file(bayescl) -> None:
    first, second, labels = arrays().values()
    np.savez("mine.npz", embeddings=first, second_view=second, y=labels)
    outcome = bayescl(f"inspect mine.npz --labels y {QUICK}")
    assert "--temperature sets the one that the encoder was trained with" in outcome.out
    outcome = bayescl(f"inspect mine.npz {QUICK} --temperature 0.1")
    assert "unknown" in next(line for line in outcome.out.splitlines() if "false negat" in line)
    assert "BayesianContrastiveLoss(temperature=0.1)" in outcome.out


@pytest.mark.usefixtures("undrawn")
def test_unknown_labels_are_words_of_no_letters_missing_or_minus_one(bayescl) -> None:
    labels = np.where(np.arange(240) < 120, np.arange(240) % 4, -1)
    words = [f"class {label}" if label >= 0 else "" for label in labels]
    np.save("a.npy", labels)
    np.save("b.npy", np.where(labels < 0, np.nan, labels))
    np.save("c.npy", np.array(words))
    pl.DataFrame({"label": [word or None for word in words]}).write_parquet("d.parquet")
    np.savez("mine.npz", **{name: arrays()[name] for name in ("embeddings", "second_view")})
    for file in ("a.npy", "b.npy", "c.npy", "d.parquet"):
        assert bayescl(f"inspect mine.npz --labels {file} {QUICK} --out page.html").status == 0
        assert figures("page.json")["labeled_items"] == 120


@pytest.mark.usefixtures("undrawn")
def test_every_format_and_byte_order_gives_the_same_figures(bayescl) -> None:
    first, second, labels = arrays().values()
    np.savez("a.npz", view_1=first, view_2=second, label=labels)
    np.save("second_view.npy", second)
    np.save("labels.npy", labels)
    np.save("embeddings.npy", first.astype(">f8"))
    pl.DataFrame(
        {
            "id": np.arange(240),
            "embedding": first,
            "second_view": pl.Series(second.tolist(), dtype=pl.List(pl.Float32)),
            "label": [f"class {label}" for label in labels],
        }
    ).write_parquet("d.parquet")
    found = []
    for source in (
        "a.npz",
        "embeddings.npy --second-view second_view.npy --labels labels.npy",
        "d.parquet",
    ):
        assert bayescl(f"inspect {source} {QUICK} --out page.html").status == 0
        report = figures("page.json")
        found.append([report["tau_plus"], *report["losses"]["InfoNCE"]["effective"].values()])
    assert all(other == pytest.approx(found[0], rel=1e-4) for other in found)


@pytest.mark.usefixtures("undrawn")
def test_names_are_shown_as_text_and_half_precision_is_read(bayescl) -> None:
    name = "<script>alert(1)<[bold].npy"
    np.save(name, arrays()["embeddings"].astype(np.float16))
    assert bayescl(f"inspect {name} {QUICK} --out page.html").status == 0
    assert "<script>" not in Path("page.html").read_text()


BAD = [
    ("objects.npy", "cannot read objects.npy: it holds Python objects"),
    ("objects.npz", "cannot read objects.npz: it holds Python objects"),
    ("names.npz", "an array called embeddings, but has a, b: name arrays with --queries"),
    ("names.npz --queries a --documents c", "it needs an array called c, but has a, b: name"),
    ("good.npy --documents a --second-view wide.npy", "give documents or --second-view, not"),
    ("words.npy", "words.npy: embeddings must hold real numbers"),
    ("holes.npy", "got NaN or infinity in 2 of 240 rows, the first of them row 7"),
    ("ragged.parquet", "cannot read ragged.parquet: embedding has rows of different lengths"),
    ("null.parquet", "got NaN or infinity in 1 of 5 rows, the first of them row 1"),
    ("words.parquet", "embeddings must hold real numbers"),
    ("table.csv", "table.csv must end in .npy, .npz, .parquet"),
    ("nowhere.npy", "there is no file nowhere.npy"),
    ("folder.npy", "folder.npy is not a run folder"),
    ("good.npy --second-view wide.npy", "wide.npy: the second view must have shape [240, 8] for"),
    ("good.npy --labels short.npy", "short.npy: the labels must have shape [240] for"),
    ("good.npy --labels halves.npy", "halves.npy: labels must be whole numbers or words"),
    ("good.npy --tau-plus 1", "--tau-plus must lie in (0, 1), got 1"),
    ("good.npy --layout sideways", "layout must be 'two_views' or 'in_batch'"),
    ("good.npy --out page.txt", "out must end in .html"),
    ("good.npy --out nowhere/page.html", "there is no folder nowhere"),
    ("good.npy --data photos", "data is only for run folders, got good.npy"),
    ("folder.npy --labels short.npy", "labels is only for files of embeddings, got folder.npy"),
]


def test_a_bad_file_is_answered_in_one_line_and_leaves_nothing(refused) -> None:
    given = arrays()
    first, labels = given["embeddings"], given["labels"]
    np.savez("objects.npz", embeddings=np.array([[1, "a"]], dtype=object))
    np.savez("names.npz", a=first, b=first)
    holes = first.copy()
    holes[[7, 9], 2] = np.nan
    for name, array in {
        "good": first,
        "objects": np.array([{"a": 1}, None], dtype=object),
        "words": np.array([["a", "b"], ["c", "d"]]),
        "wide": first[:, :5],
        "holes": holes,
        "short": labels[:100],
        "halves": labels + 0.5,
    }.items():
        np.save(f"{name}.npy", array, allow_pickle=True)
    for name, rows in {
        "ragged": [[1.0, 2.0], [1.0]],
        "null": [[1.0, 2.0], None, *[[1.0, 2.0]] * 3],
        "words": ["a", "b"],
    }.items():
        pl.DataFrame({"embedding": rows}).write_parquet(f"{name}.parquet")
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("folder.npy").mkdir()
    refused((f"inspect {options}", message) for options, message in BAD)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [-1] * 240, "domain": [""] * 240}, ""),
        ({"label": [3] + [-1] * 239}, "labels must be known for at least 2 items, got 1"),
        ({"domain": ["a"] * 240}, "domains must be known for more than 10 items, and of two kinds"),
    ],
)
def test_codes_of_no_item_are_none_and_codes_of_too_few_are_refused(
    bayescl, columns, message
) -> None:
    pl.DataFrame({"embedding": arrays()["embeddings"], **columns}).write_parquet("a.parquet")
    outcome = bayescl(f"inspect a.parquet {QUICK} --out page.html")
    assert message in outcome.err
    assert (outcome.status == 0) == (not message)

"""``bayescl inspect FILE``: anybody's embeddings, well-meant and hostile."""

from __future__ import annotations

import html
import json
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from bayescl.diagnostics import diagnose_embeddings

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


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], **changes: object) -> None:
    """The format by its specification; changes go into the entry of every tensor."""
    kinds = {"<f4": "F32", "<i8": "I64", "<f2": "F16"}
    header: dict[str, object] = {"__metadata__": {"written": "by a test"}}
    body = b""
    for name, array in tensors.items():
        content = array.tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(content)],
            **changes,
        }
        body += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def figures(name: str = "all-inspection.json") -> dict:
    return json.loads(Path(name).read_text())


def test_a_file_gives_tables_a_page_and_figures_and_needs_no_run(bayescl) -> None:
    np.savez("all.npz", **arrays())
    outcome = bayescl(f"inspect all.npz {QUICK}")
    assert outcome.status == 0
    for words in ("false negatives of an anchor", "trust", "latent classes", "oracle", "repulsion"):
        assert words in outcome.out
    assert "\nWith InfoNCE " in outcome.out
    assert sorted(path.name for path in Path().iterdir()) == [
        "all-inspection.html",
        "all-inspection.json",
        "all.npz",
    ]
    page = Path("all-inspection.html").read_text()
    assert page.count("<img") == 4
    assert "240 embeddings" in page


def test_the_command_says_what_the_function_says(bayescl) -> None:
    given = arrays()
    np.savez("all.npz", **given)
    assert bayescl(f"inspect all.npz {QUICK} --seed 3 --temperature 0.2").status == 0
    found = diagnose_embeddings(
        given["embeddings"],
        given["second_view"],
        labels=given["labels"],
        batch_size=40,
        items=80,
        seed=3,
        temperature=0.2,
    )
    report = figures()
    assert report.pop("advice")["call"] == ("AttractingOracleContrastiveLoss(temperature=0.2)")
    assert report == json.loads(json.dumps(found.figures()))


@pytest.mark.parametrize(
    ("names", "options", "advice"),
    [
        ("embeddings", "", "Cannot be told from this, because one view"),
        ("embeddings labels", "", "Use AttractingOracleContrastiveLoss"),
        ("embeddings second_view", "", "Use LatentClassContrastiveLoss(temperature=0.5). "),
        ("queries documents", "", 'aim="pairs"). '),
        ("q d", "--queries q --documents d", 'aim="pairs"). '),
        ("q d labels", "--queries q --documents d", 'aim="pairs"), called with labels=. '),
    ],
)
def test_it_ends_with_advice_and_takes_no_pages_place(bayescl, names, options, advice) -> None:
    given = dict(zip(("embeddings", "second_view"), arrays().values(), strict=False))
    roles = dict(zip(names.split(), given, strict=False))
    chosen = {name: arrays()[roles[name] if name != "labels" else name] for name in names.split()}
    np.savez("mine.npz", **chosen)
    for page in ("mine-inspection", "mine-inspection-2"):
        outcome = bayescl(f"inspect mine.npz {options} {QUICK}")
        assert outcome.status == 0, outcome.err
        assert advice in outcome.out
        assert f"\n{page}.html\n{page}.json\n" in outcome.out
        assert advice.strip() in html.unescape(Path(f"{page}.html").read_text())


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
        assert figures("page.json")["labelled_items"] == 120


def test_every_format_gives_the_same_figures(bayescl) -> None:
    given = arrays()
    np.savez(
        "a.npz", view_1=given["embeddings"], view_2=given["second_view"], label=given["labels"]
    )
    write_safetensors(Path("b.safetensors"), given)
    for name, array in given.items():
        np.save(f"{name}.npy", array)
    pl.DataFrame(
        {
            "id": np.arange(240),
            "embedding": given["embeddings"],
            "second_view": pl.Series(given["second_view"].tolist(), dtype=pl.List(pl.Float32)),
            "label": [f"class {label}" for label in given["labels"]],
        }
    ).write_parquet("d.parquet")
    found = {}
    for source, options in (
        ("a.npz", ""),
        ("b.safetensors", ""),
        ("embeddings.npy", "--second-view second_view.npy --labels labels.npy"),
        ("d.parquet", ""),
    ):
        outcome = bayescl(f"inspect {source} {options} {QUICK} --out page.html")
        assert outcome.status == 0, outcome.err
        found[source] = figures("page.json")
    first, *others = found.values()
    assert all(other == first for other in others)


def test_half_precision_and_other_byte_orders_are_read(bayescl) -> None:
    first = arrays()["embeddings"]
    coarse = torch.from_numpy(first).bfloat16()
    bits = coarse.view(torch.int16).numpy().view("<f2")  # two bytes each, whatever they mean
    write_safetensors(Path("b.safetensors"), {"embeddings": bits}, dtype="BF16")
    np.save("c.npy", coarse.float().numpy().astype(">f8"))
    found = []
    for source in ("b.safetensors", "c.npy"):
        assert bayescl(f"inspect {source} {QUICK} --out page.html").status == 0
        found.append(figures("page.json")["losses"]["InfoNCE"]["effective_negatives"])
    assert found[0] == pytest.approx(found[1])


def test_a_lone_array_may_have_any_name_and_one_view_is_enough(bayescl) -> None:
    np.savez("mine.npz", whatever=arrays()["embeddings"])
    outcome = bayescl(f"inspect mine.npz {QUICK} --num-classes 4")
    assert outcome.status == 0
    assert figures("mine-inspection.json")["tau_plus"] == 0.25
    assert "trust" not in outcome.out
    assert "a second view of each item" in Path("mine-inspection.html").read_text()


def test_names_are_shown_as_text(bayescl) -> None:
    name = "<script>alert(1)</script>[bold].npy".replace("/", "")
    np.save(name, arrays()["embeddings"])
    assert bayescl(f"inspect {name} {QUICK} --out page.html").status == 0
    assert "<script>" not in Path("page.html").read_text()


@pytest.fixture
def hostile(tmp_path, monkeypatch) -> None:
    """A folder of files that are not what they should be."""
    monkeypatch.chdir(tmp_path)
    given = arrays()
    first = given["embeddings"]
    np.save("good.npy", first)
    np.save("objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    Path("pickled.npy").write_bytes(pickle.dumps(first))
    np.savez("objects.npz", embeddings=np.array([[1, "a"]], dtype=object))
    Path("cut.npy").write_bytes(Path("good.npy").read_bytes()[:500])
    Path("text.npy").write_text("0.1,0.2\n")
    Path("empty.npy").touch()
    Path("text.npz").write_text("not a zip")
    Path("text.parquet").write_text("not a table")
    Path("text.safetensors").write_text("not tensors at all, but long enough")
    Path("short.safetensors").write_bytes(b"\x02")
    Path("list.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]" + b"0")
    write_safetensors(Path("size.safetensors"), {"embeddings": first}, shape=[240, 9])
    write_safetensors(Path("negative.safetensors"), {"embeddings": first}, shape=[-240, -8])
    write_safetensors(Path("place.safetensors"), {"embeddings": first}, data_offsets=[10**9, 10**9])
    write_safetensors(Path("entry.safetensors"), {"embeddings": first}, data_offsets="ab")
    write_safetensors(Path("type.safetensors"), {"embeddings": first}, dtype="F8_E4M3")
    np.savez("names.npz", a=first, b=first)
    np.savez("none.npz")
    np.save("words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save("line.npy", first[:, 0])
    np.save("cube.npy", first[None])
    np.save("wide.npy", first[:, :5])
    np.save("few.npy", first[:3])
    np.save("labels.npy", given["labels"])
    np.save("short.npy", given["labels"][:100])
    np.save("negative.npy", given["labels"] - 2)
    np.save("halves.npy", given["labels"] + 0.5)
    np.save("same.npy", np.zeros(240, dtype=int))
    holes = first.copy()
    holes[[7, 9], 2] = np.nan
    np.save("holes.npy", holes)
    pl.DataFrame({"embedding": [[1.0, 2.0], [1.0]]}).write_parquet("ragged.parquet")
    pl.DataFrame({"embedding": [[1.0, 2.0], None]}).write_parquet("null.parquet")
    pl.DataFrame({"embedding": ["a", "b"]}).write_parquet("words.parquet")
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("folder.npy").mkdir()


BAD = [
    ("objects.npy", "cannot read objects.npy: it holds Python objects"),
    ("pickled.npy", "cannot read pickled.npy"),
    ("objects.npz", "cannot read objects.npz: it holds Python objects"),
    ("cut.npy", "cannot read cut.npy"),
    ("text.npy", "cannot read text.npy"),
    ("empty.npy", "cannot read empty.npy"),
    ("text.npz", "cannot read text.npz"),
    ("text.parquet", "cannot read text.parquet"),
    ("text.safetensors", "cannot read text.safetensors: it is not a safetensors file"),
    ("short.safetensors", "cannot read short.safetensors"),
    ("list.safetensors", "cannot read list.safetensors"),
    ("size.safetensors", "cannot read size.safetensors: it is not a safetensors file"),
    ("negative.safetensors", "cannot read negative.safetensors: it is not a safetensors file"),
    ("place.safetensors", "cannot read place.safetensors: it is not a safetensors file"),
    ("entry.safetensors", "cannot read entry.safetensors"),
    ("type.safetensors", "cannot read type.safetensors: it is not a safetensors file"),
    ("names.npz", "it needs an array called embeddings, but has a, b"),
    ("names.npz --queries c", "it needs an array called c, but has a, b"),
    ("names.npz --queries a --documents c", "it needs an array called c, but has a, b"),
    ("good.npy --documents a --second-view wide.npy", "give documents or second_view, not"),
    ("none.npz", "it needs an array called embeddings, but has no array"),
    ("words.npy", "words.npy: embeddings must hold real numbers"),
    ("line.npy", "embeddings must have shape [items, dim], got [240]"),
    ("cube.npy", "the number of dimensions must be 1 or 2, got shape (1, 240, 8)"),
    ("few.npy", "embeddings must have at least 4 rows, got 3"),
    ("holes.npy", "got NaN or infinity in 2 of 240 rows, the first of them row 7"),
    ("ragged.parquet", "embedding has rows of 2 different lengths"),
    ("null.parquet", "embedding has 1 empty rows"),
    ("words.parquet", "embeddings must hold real numbers"),
    ("table.csv", "table.csv must end in .npy, .npz, .parquet, .safetensors"),
    ("nowhere.npy", "there is no file nowhere.npy"),
    ("folder.npy", "folder.npy is not a run folder"),
    ("good.npy --second-view wide.npy", "second_view must have shape [240, 8], got [240, 5]"),
    ("good.npy --second-view nowhere.npy", "there is no file nowhere.npy"),
    ("good.npy --second-view holes.npy", "second_view must be finite"),
    ("good.npy --labels short.npy", "labels must have shape [240], got [100]"),
    (
        "good.npy --labels negative.npy",
        "labels must be at least 0, or -1 where unknown, got -2",
    ),
    ("good.npy --labels halves.npy", "halves.npy: labels must be whole numbers or words"),
    ("good.npy --labels same.npy", "labels must name at least two classes"),
    ("good.npy --labels pickled.npy", "cannot read pickled.npy"),
    ("good.npy --tau-plus 1", "tau_plus must lie in (0, 1), got 1"),
    ("good.npy --num-classes 1", "num_classes must be at least 2, got 1"),
    ("good.npy --temperature 0", "temperature must be above 0, got 0"),
    ("good.npy --batch-size 1", "batch_size must be at least 2, got 1"),
    ("good.npy --layout sideways", "layout must be 'two_views' or 'in_batch'"),
    ("good.npy --out page.txt", "out must end in .html"),
    ("good.npy --out nowhere/page.html", "there is no folder nowhere"),
    ("good.npy --part evaluation", "--part is for a run folder, but good.npy is a file"),
    ("folder.npy --labels labels.npy", "--labels is for a file of embeddings"),
]


def test_a_bad_file_is_answered_in_one_line_and_leaves_nothing(refused, hostile) -> None:
    refused((f"inspect {options}", message) for options, message in BAD)

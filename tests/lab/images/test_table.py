"""Labels and domains of a flat folder in a table beside it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.table import ImageTable

LABELS = ["ant", "bee", "ant", "", "bee"]
SCOPES = ["2", "1", "1", "2", ""]


@pytest.fixture
def folder(tmp_path) -> Path:
    """Five images of one gray value each, one of them in a folder below."""
    place = tmp_path / "photos"
    (place / "more").mkdir(parents=True)
    for number in range(5):
        name = f"more/{number}.png" if number == 4 else f"{number}.png"
        Image.fromarray(np.full((4, 4), 10 * number, np.uint8)).save(place / name)
    return place


def rows_of(names: list[str], header: str = "File Name,kind,Scope", comma: str = ",") -> str:
    lines = zip(names, LABELS, SCOPES, strict=True)
    return "\n".join([header.replace(",", comma), *(comma.join(line) for line in lines)])


NAMES = [*(f"{number}.png" for number in range(4)), "more/4.png"]


def loaded(folder: Path, table: Path, **columns: str):
    """Label and domain of each image, by its gray value."""
    store = load_images(
        str(folder),
        table=ImageTable.read(table, label_column="kind", **columns),
        labels_per_class=99,
    ).train
    values = (store.items[:, 0, 0, 0] // 10).tolist()
    classes, domains = [*store.class_names, ""], [*store.domain_names, ""]
    found = zip(store.labels.tolist(), store.domains.tolist(), strict=True)
    named = [(classes[label], domains[domain]) for label, domain in found]
    return [named[values.index(number)] for number in range(5)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", rows_of(NAMES)),
        ("tab.tsv", rows_of(NAMES, comma="\t")),
        ("stems.csv", rows_of([name.removesuffix(".png") for name in NAMES])),
        ("longer.csv", rows_of([f"/data/photos/{name}" for name in NAMES])),
        ("shorter.csv", rows_of([name.removeprefix("more/") for name in NAMES])),
        ("backslash.csv", rows_of([name.replace("/", "\\") for name in NAMES])),
        ("null.csv", rows_of(NAMES).replace(",,", ",NaN,")),
        ("blanks.csv", rows_of([f" {name} " for name in NAMES])),
    ],
)
def test_a_table_gives_every_image_its_label_and_domain(folder, tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    assert loaded(folder, tmp_path / name) == list(zip(LABELS, SCOPES, strict=True))


def test_a_parquet_file_of_numbers_gives_the_same(folder, tmp_path):
    frame = pl.DataFrame(
        {
            "path": NAMES,
            "kind": [0, 1, 0, None, 1],
            "scope": [2.0, 1.0, 1.0, 2.0, None],
            "boxes": [[1]] * 5,
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    labels, domains = zip(*loaded(folder, tmp_path / "a.parquet"), strict=True)
    assert labels == ("0", "1", "0", "", "1")
    assert domains == ("2", "1", "1", "2", "")


def test_a_table_of_domains_alone_leaves_class_folders_as_they_are(tmp_path):
    for number in range(8):
        place = tmp_path / "photos" / f"class{number % 2}" / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), number).save(place)
    table = tmp_path / "a.csv"
    table.write_text("\n".join(["image,device", *(f"{it}.png,{it % 4}" for it in range(8))]))
    store = load_images(
        str(tmp_path / "photos"), table=ImageTable.read(table), labels_per_class=99
    ).train
    assert store.class_names == ("class0", "class1")
    values = store.items[:, 0, 0, 0]
    assert store.labels.tolist() == (values % 2).tolist()
    assert store.domains.tolist() == (values % 4).tolist()

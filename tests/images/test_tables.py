from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from bayescl_lab.images.datasets import load_images
from bayescl_lab.runs.images.record import ImageRecord

NAMES = ["cat", "a/dog"]


def pictures(count: int) -> dict[str, list[Any]]:
    """Grey pictures, every tenth of unknown class."""
    rows = [np.full((8, 8), 20 * number % 256, np.uint8) for number in range(count)]
    labels = [-1 if number % 10 == 9 else number % 2 for number in range(count)]
    return {"image": [Image.fromarray(row) for row in rows], "label": labels}


def table(count: int) -> pl.DataFrame:
    made = pictures(count)
    contents = [io.BytesIO() for _ in made["image"]]
    for image, content in zip(made["image"], contents, strict=True):
        image.save(content, "png")
    made["image"] = [{"bytes": content.getvalue(), "path": None} for content in contents]
    return pl.DataFrame(made)


def check(folder: Path, names: tuple[str, ...]) -> None:
    parts = load_images(str(folder))
    assert (len(parts.train), len(parts.evaluation)) == (30, 10)
    assert parts.train.class_names == names
    assert sorted(parts.train.labels.tolist()).count(-1) == 3
    row = next(row for row, name in enumerate(parts.train.ids) if name.endswith("-0000003.png"))
    assert int(parts.train.images[row].max()) == 60
    assert names[parts.train.labels[row]] in ("cat", "a_dog", "1")
    cache = Path(os.environ["BAYESCL_CACHE"])
    made = {path: path.stat().st_mtime_ns for path in cache.rglob("*.png")}
    load_images(str(folder))  # unpacked once
    record = ImageRecord.of(str(folder), parts, {})
    assert (record.arrays["checksums"] >= 0).all()
    assert made == {path: path.stat().st_mtime_ns for path in cache.rglob("*.png")}


def test_a_snapshot_of_parquet_files_is_read(tmp_path) -> None:
    folder = tmp_path / "hub"
    (folder / "data").mkdir(parents=True)
    for part, count in (("train", 30), ("validation", 10)):
        table(count).write_parquet(folder / "data" / f"{part}-00000-of-00001.parquet")
    check(folder, ("0", "1"))


def test_what_save_to_disk_wrote_is_read(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    )
    made = datasets.DatasetDict(
        {
            part: datasets.Dataset.from_dict(pictures(count), features=features)
            for part, count in (("train", 30), ("test", 10))
        }
    )
    made.save_to_disk(tmp_path / "saved")
    check(tmp_path / "saved", ("a_dog", "cat"))
    (tmp_path / "hub").mkdir()
    for part in made:
        made[part].to_parquet(tmp_path / "hub" / f"{part}.parquet")
    check(tmp_path / "hub", ("a_dog", "cat"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: file.write_bytes(b"PAR1 no"), "cannot read"),
        (lambda file: pl.DataFrame({"a": [1]}).write_parquet(file), "no column image"),
        (
            lambda file: pl.DataFrame({"image": [{"bytes": None, "path": "a.png"}]}).write_parquet(
                file
            ),
            "paths of images instead",
        ),
    ],
)
def test_tables_without_images_are_refused(tmp_path, make, message) -> None:
    make(tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path))

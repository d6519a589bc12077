"""Damaged files of every format: a right answer or one clear line, and little memory.

``BAYESCL_MUTATIONS=500`` tries as many mutations of each format.
"""

import gzip
import io
import os
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from bayescl_lab.images.datasets import load_images
from bayescl_lab.inspect.files import read_embeddings
from bayescl_lab.inspect.measures import diagnose_embeddings
from bayescl_lab.ranking.datasets import load_interactions
from tests.lab.images.test_foreign_images import chunk

MUTATIONS = int(os.environ.get("BAYESCL_MUTATIONS", "40"))
ROOM = 2**30
HUGE = (0xFF, 0x7F, 0x80, 0x00)


@pytest.fixture
def little_memory() -> object:
    """Whoever takes more than 1 GiB besides what is there gets a MemoryError."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def mutated(content: bytes, seed: int) -> bytes:
    """The content with some bytes flipped, cut, doubled, set to 0 or to the largest number."""
    dice = np.random.default_rng(seed)
    data = bytearray(content)
    for _ in range(dice.integers(1, 4)):
        # Half of the damage is done to the header, where sizes are declared.
        end = len(data) if dice.random() < 0.5 else min(len(data), 128)
        at = int(dice.integers(0, max(1, end)))
        length = int(dice.choice([1, 2, 4, 8, 64]))
        kind = dice.integers(0, 7)
        if kind == 0:
            data[at : at + 1] = bytes([int(dice.integers(0, 256))])
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = data[at : at + length]
        elif kind == 3:
            data[at : at + length] = bytes(min(length, len(data) - at))
        elif kind == 4:
            data[at : at + length] = bytes([HUGE[dice.integers(0, 4)]]) * length
        elif kind == 5:
            del data[at : at + length]
        else:  # a longer decimal number, as in NumPy's headers and JSON
            digits = [place for place in range(len(data[:300])) if chr(data[place]).isdigit()]
            if digits:
                place = int(dice.choice(digits))
                data[place : place + 1] = b"9" * int(dice.integers(1, 12))
    return bytes(data)


def rows() -> dict[str, np.ndarray]:
    dice = np.random.default_rng(0)
    views = dice.normal(size=(2, 40, 6)).astype(np.float32)
    return {"embeddings": views[0], "second_view": views[1], "labels": np.arange(40) % 4}


def inspect(path: Path) -> None:
    diagnose_embeddings(*(rows[:4] for rows in read_embeddings(path)[:2] if rows is not None))


def images_npz(path: Path) -> None:
    dice = np.random.default_rng(0)
    images = dice.integers(0, 256, size=(20, 8, 8), dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(20) % 2)


def picture(path: Path) -> None:
    colors = np.random.default_rng(0).integers(0, 256, size=(24, 24, 3), dtype=np.uint8)
    Image.fromarray(colors).save(path)


def folder_of(path: Path) -> None:
    """Train on a folder of one sound and one damaged picture of each of two classes."""
    for name in ("a", "b"):
        place = path.parent / "folder" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / path.name).write_bytes(path.read_bytes())
        for number in range(3):
            if not (place / f"sound-{number}.png").exists():
                picture(place / f"sound-{number}.png")
    parts = load_images(str(path.parent / "folder"))
    assert 3 <= len(parts.train) <= 6


PAIRS = [
    f"u{user},i-{item},{item % 5},{10 * item + user}" for user in range(9) for item in range(7)
]
TABLE = "\n".join(["user,item,rating,timestamp", *PAIRS])


def lists(path: Path) -> None:
    path.write_text("\n".join(f"{user} 1 2 {user + 3}" for user in range(9)))
    path.with_name("test.txt").write_text("0 9\n1 8\n")


def rank(path: Path) -> None:
    data = str(path.parent if path.name == "train.txt" else path)
    train = load_interactions(data, split="last" if path.name != "train.txt" else None).train
    assert len(np.unique(train.user_ids)) == train.num_users
    assert len(np.unique(train.item_ids)) == train.num_items
    assert train.timestamps is None or np.isfinite(train.timestamps).all()


FORMATS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "a.npy": (lambda path: np.save(path, rows()["embeddings"]), inspect),
    "a.npz": (lambda path: np.savez_compressed(path, **rows()), inspect),
    "a.parquet": (lambda path: pl.DataFrame(rows()).write_parquet(path), inspect),
    "images.npz": (images_npz, lambda path: load_images(str(path))),
    **{f"a.{kind}": (picture, folder_of) for kind in ("png", "jpg", "gif", "webp", "tif", "bmp")},
    "a.csv": (lambda path: path.write_text(TABLE), rank),
    "a.csv.gz": (lambda path: path.write_bytes(gzip.compress(TABLE.encode())), rank),
    "table.parquet": (lambda path: pl.read_csv(TABLE.encode()).write_parquet(path), rank),
    "train.txt": (lists, rank),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_told_in_one_line(name, tmp_path, little_memory, caplog):
    write, read = FORMATS[name]
    path = tmp_path / name
    write(path)
    content = path.read_bytes()
    read(path)
    problems = {}
    for seed in range(MUTATIONS):
        path.write_bytes(mutated(content, seed))
        try:
            read(path)
        except (ValueError, OSError) as error:
            problems[seed] = str(error)
        except BaseException as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
    assert problems or read is folder_of
    assert not {seed for seed, text in problems.items() if len(text) >= 500 or "\n" in text}


def big_png(side: int) -> bytes:
    """A PNG file that promises a square of pixels and holds a few."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(3 * 1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [12_000, 2**31 - 1])
def test_a_picture_that_promises_too_much_is_left_out(tmp_path, little_memory, side):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "big.png").write_bytes(big_png(side))
        for number in range(3):
            picture(tmp_path / name / f"{number}.png")
    remarks = load_images(str(tmp_path)).remarks
    assert any("big.png" in remark for remark in remarks)


def test_an_archive_that_promises_too_much_is_refused_unread(tmp_path, little_memory, monkeypatch):
    header = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 8)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("embeddings.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"cannot read .*a\.npz: "):
        inspect(tmp_path / "a.npz")
    images_npz(tmp_path / "b.npz")
    monkeypatch.setattr("bayescl_lab._arrays.usable_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"images needs .* GB, more than the available memory"):
        load_images(str(tmp_path / "b.npz"))

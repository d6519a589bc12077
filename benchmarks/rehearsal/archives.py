"""Archives of random images in the form in which the paper's data sets are published."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from bayescl_lab.images import catalog

SMALLEST = 5
"""Images of a class that every part keeps, however small the share."""
_BLOCK = 1000  # images


def write_archive(name: str, folder: Path, share: float = 1.0) -> Path:
    """Write the archive of a data set, under its published name, unless it is there.

    It has the published members, formats, classes and shapes, and a share of the images, with
    random pixels. Raw pixels have seven random bits: they compress about as well as photographs.
    """
    (source,) = (source for source in catalog.SOURCES if source.name == name)
    path = folder / source.files[0].filename
    if path.is_file():
        return path
    draw = np.random.default_rng(0)
    begun = path.with_name(f"{path.name}.begun")
    if name == "tiny-imagenet":
        _write_tiny_imagenet(begun, draw, share)
    else:
        make = {"cifar10": _cifar10, "cifar100": _cifar100, "stl10": _stl10}[name]
        with tarfile.open(begun, "w:gz", compresslevel=1) as archive:
            for member, blocks in make(draw, share):
                with tempfile.TemporaryFile(dir=folder) as content:
                    content.writelines(blocks)
                    info = tarfile.TarInfo(member)
                    info.size = content.tell()
                    content.seek(0)
                    archive.addfile(info, content)
    return begun.replace(path)


def put_in_place(archives: dict[str, dict[str, str | int]]) -> None:
    """Have this process take archives with these ``url, size, checksum`` for the published ones."""
    catalog.SOURCES = tuple(
        replace(source, files=(replace(source.files[0], **archives.get(source.name, {})),))
        for source in catalog.SOURCES
    )


def md5(path: Path) -> str:
    """The checksum of a file, as sources state it."""
    with path.open("rb") as file:
        return f"md5:{hashlib.file_digest(file, 'md5').hexdigest()}"


_Member = tuple[str, Iterator[bytes]]
"""Name and content of a member of an archive."""


def _text(name: str, content: str) -> _Member:
    return name, iter([content.encode()])


def _count(published: int, share: float, classes: int) -> int:
    """Images of a part: equally many of each class."""
    return classes * max(SMALLEST, round(share * published / classes))


def _pixels(draw: np.random.Generator, count: int, size: int) -> np.ndarray:
    return draw.integers(0, 128, (count, size), dtype=np.uint8)


def _records(
    draw: np.random.Generator, count: int, label: Callable[[np.ndarray], list[np.ndarray]]
) -> Iterator[bytes]:
    """Records of CIFAR: labels and the pixels."""
    for start in range(0, count, _BLOCK):
        number = np.arange(start, min(count, start + _BLOCK))
        labels = [one[:, None].astype(np.uint8) for one in label(number)]
        yield np.concatenate([*labels, _pixels(draw, len(number), 3 * 32 * 32)], axis=1).tobytes()


def _cifar10(draw: np.random.Generator, share: float) -> Iterator[_Member]:
    folder = "cifar-10-batches-bin"
    for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        count = _count(10_000, share, 10)
        yield f"{folder}/{file}.bin", _records(draw, count, lambda row: [row % 10])
    yield _text(f"{folder}/batches.meta.txt", "".join(f"class {one}\n" for one in range(10)))


def _cifar100(draw: np.random.Generator, share: float) -> Iterator[_Member]:
    folder = "cifar-100-binary"
    for file, published in (("train", 50_000), ("test", 10_000)):
        count = _count(published, share, 100)
        yield f"{folder}/{file}.bin", _records(draw, count, lambda row: [row % 20, row % 100])
    for file, classes in (("coarse", 20), ("fine", 100)):
        names = "".join(f"class {one}\n" for one in range(classes))
        yield _text(f"{folder}/{file}_label_names.txt", names)


def _stl10(draw: np.random.Generator, share: float) -> Iterator[_Member]:
    folder, size = "stl10_binary", 3 * 96 * 96

    def blocks(count: int) -> Iterator[bytes]:
        for start in range(0, count, _BLOCK):
            yield _pixels(draw, min(_BLOCK, count - start), size).tobytes()

    for part, published in (("test", 8_000), ("train", 5_000), ("unlabeled", 100_000)):
        count = _count(published, share, 10)
        yield f"{folder}/{part}_X.bin", blocks(count)
        if part != "unlabeled":
            yield f"{folder}/{part}_y.bin", iter([bytes(1 + row % 10 for row in range(count))])
    yield _text(f"{folder}/class_names.txt", "".join(f"class {one}\n" for one in range(10)))
    yield _text(f"{folder}/fold_indices.txt", "0\n")


def _write_tiny_imagenet(path: Path, draw: np.random.Generator, share: float) -> None:
    """JPEGs in a folder for each class, the validation part's in one folder beside a table."""
    folder = "tiny-imagenet-200"
    classes = [f"n{number:08}" for number in range(200)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        words = "".join(f"{name}\tclass {number}\n" for number, name in enumerate(classes))
        archive.writestr(f"{folder}/words.txt", words)
        archive.writestr(f"{folder}/wnids.txt", "\n".join(classes))
        for name in classes:
            for number in range(_count(100_000, share, 200) // 200):
                place = f"{folder}/train/{name}/images/{name}_{number}.JPEG"
                archive.writestr(place, _jpeg(draw))
            archive.writestr(f"{folder}/train/{name}/{name}_boxes.txt", "")
        lines = []
        for number in range(_count(10_000, share, 200)):
            file = f"val_{number}.JPEG"
            archive.writestr(f"{folder}/val/images/{file}", _jpeg(draw))
            archive.writestr(f"{folder}/test/images/test_{number}.JPEG", _jpeg(draw))
            lines.append(f"{file}\t{classes[number % 200]}\t0\t0\t63\t63\n")
        archive.writestr(f"{folder}/val/val_annotations.txt", "".join(lines))


def _jpeg(draw: np.random.Generator) -> bytes:
    """Coarse colours and fine grain, 64 by 64 pixels."""
    coarse = Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((64, 64), Image.Resampling.BICUBIC), np.int16)
    grain = draw.integers(-8, 9, pixels.shape, dtype=np.int16)
    content = io.BytesIO()
    Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8)).save(content, "JPEG")
    return content.getvalue()

import errno
import hashlib
import io
import os
import pickle
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import datasets

from bayescl_lab._downloads import DataSource, extract_archive
from bayescl_lab.images import catalog
from bayescl_lab.images.datasets import load_images

RNG = np.random.default_rng(0)


Part = tuple[np.ndarray, list[int]]


@dataclass
class Published:
    """A small data set in the exact form of a published one, with what reading it must give."""

    folder: str
    class_names: tuple[str, ...]
    train: Part
    test: Part
    members: dict[str, bytes]

    def write_archive(self, path: Path, place: Path) -> Path:
        """Write the archive of a folder that is made in a place."""
        for name, content in self.members.items():
            (file := place / self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        form = "zip" if path.suffix == ".zip" else "gztar"
        base = str(path).removesuffix(path.suffix).removesuffix(".tar")
        return Path(shutil.make_archive(base, form, place, self.folder))


def random_part(labels: list[int], side: int) -> Part:
    return RNG.integers(0, 256, (len(labels), 3, side, side), dtype=np.uint8), labels


def cifar10() -> Published:
    class_names = ("airplane", "automobile", "bird")
    files = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
    parts = [random_part([0, 1, 2], 32) for _ in files]
    members = {"batches.meta": pickle.dumps({"label_names": [*class_names]})}
    for file, (images, labels) in zip(files, parts, strict=True):
        members[file] = pickle.dumps({"data": images.reshape(3, -1), "labels": labels})
    train = np.concatenate([images for images, _ in parts[:-1]]), [0, 1, 2] * len(parts[:-1])
    return Published("cifar-10-batches-py", class_names, train, parts[-1], members)


def stl10() -> Published:
    train, test, unlabeled = (
        random_part(labels, 96) for labels in ([0, 1] * 3, [1, 1, 0], [-1] * 4)
    )
    members = {"class_names.txt": b"airplane\nbird", "fold_indices.txt": b"0 1\n"}
    for name, (images, labels) in (("train", train), ("test", test), ("unlabeled", unlabeled)):
        # The published files hold each channel column by column, and labels from 1.
        members[f"{name}_X.bin"] = images.transpose(0, 1, 3, 2).tobytes()
        if name != "unlabeled":
            members[f"{name}_y.bin"] = bytes(label + 1 for label in labels)
    both = np.concatenate([train[0], unlabeled[0]]), train[1] + unlabeled[1]
    return Published("stl10_binary", ("airplane", "bird"), both, test, members)


def tiny_imagenet() -> Published:
    members = {
        "wnids.txt": b"n01\nn03\nn02",
        "words.txt": b"n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane, machine\n",
        "val/val_annotations.txt": "".join(
            f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t62\n"
            for number, wnid in enumerate(("n02", "n01", "n03"))
        ).encode(),
    }

    def picture(name: str, mode: str = "RGB") -> np.ndarray:
        smooth = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        image = Image.fromarray(smooth).resize((64, 64)).convert(mode)
        image.save(content := io.BytesIO(), "JPEG")
        members[name] = content.getvalue()
        return np.asarray(Image.open(content).convert("RGB")).transpose(2, 0, 1)

    train = [
        picture(f"train/{wnid}/images/{wnid}_{number}.JPEG")
        for wnid in ("n01", "n03", "n02")
        for number in range(4)
    ]
    test = [
        picture(f"val/images/val_{number}.JPEG", "L" if number else "RGB") for number in range(3)
    ]
    return Published(
        "tiny-imagenet-200",
        ("goldfish", "crane (n03)", "crane (n02)"),
        (np.stack(train), [0] * 4 + [1] * 4 + [2] * 4),
        (np.stack(test), [2, 0, 1]),
        members,
    )


MAKE = {"cifar10": cifar10, "stl10": stl10, "tiny-imagenet": tiny_imagenet}
READERS = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100, "stl10": datasets.STL10}


def source_of(name: str) -> DataSource:
    (source,) = (source for source in catalog.SOURCES if source.name == name)
    return source


@pytest.fixture
def data() -> Path:
    return Path(os.environ["BAYESCL_DATA"])


@pytest.fixture
def publish(monkeypatch, data, tmp_path):
    """Make a small data set the published one, its archive in the data folder."""
    for module in (datasets.cifar, datasets.stl10):  # they compare checksums
        monkeypatch.setattr(module, "check_integrity", lambda path, _=None: Path(path).is_file())

    def make(name: str, damage: dict[str, bytes | None] | None = None) -> tuple[Published, Path]:
        small, source = MAKE[name](), source_of(name)
        members = {**small.members, **(damage or {})}
        small.members = {name: it for name, it in members.items() if it is not None}
        (data / name).mkdir()
        archive = small.write_archive(data / name / source.files[0].filename, tmp_path / name)
        digest = hashlib.md5(archive.read_bytes(), usedforsecurity=False).hexdigest()
        file = replace(source.files[0], checksum=f"md5:{digest}")
        monkeypatch.setattr(catalog, "SOURCES", (replace(source, files=(file,)),))
        return small, archive

    return make


def assert_same(store, expected: tuple[np.ndarray, list[int]]) -> None:
    images, labels = expected
    assert torch.equal(store.items, torch.from_numpy(images.copy()))
    assert store.labels.tolist() == labels


@pytest.mark.parametrize("name", MAKE)
def test_an_archive_is_read_once_to_pixels_that_are_mapped_into_memory(publish, name):
    small, archive = publish(name)
    for _ in range(2):  # from the archive, then from the pixels that it became
        parts = load_images(name)
        assert_same(parts.train, small.train)
        assert_same(parts.evaluation, small.test)
        assert parts.train.class_names == small.class_names
        if name == "stl10":
            labeled = [len(part) for part in load_images(name, evaluate_on="validation").labeled()]
            assert sum(labeled) == 6  # of ten training images
        parts.train.items.zero_()  # of this process alone
        archive.unlink(missing_ok=True)


def test_an_unpacked_copy_is_used(publish):
    small, archive = publish("stl10")
    extract_archive(archive, archive.parent / "unpacked")
    archive.unlink()
    (archive.parent / "unpacked" / small.folder).rename(archive.parent / small.folder)
    assert_same(load_images("stl10").train, small.train)


def test_a_damaged_archive_is_refused_before_it_is_read(publish):
    _, archive = publish("tiny-imagenet")
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"is damaged: md5 must be .*, got "):
        load_images("tiny-imagenet")
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.parametrize(
    ("name", "member", "content", "message"),
    [
        ("cifar10", "batches.meta", None, "cifar10 is damaged: a file is missing"),
        ("stl10", "train_y.bin", None, "stl10 is damaged: a file is missing"),
        ("tiny-imagenet", "train/n01/images/n01_2.JPEG", b"nothing", "n01_2.JPEG is damaged: not"),
        ("tiny-imagenet", "wnids.txt", b"n01 n77", "the class n77 has no training images"),
        ("tiny-imagenet", "words.txt", None, "words.txt"),
        ("tiny-imagenet", "val/val_annotations.txt", b"val_0.JPEG\tn77\n", "is damaged.*n77"),
    ],
)
def test_damaged_members_are_refused_and_leave_no_store(
    publish, data, name, member, content, message
):
    publish(name, {member: content})
    with pytest.raises(ValueError, match=message):
        load_images(name)
    assert not [path for path in data.rglob("*") if path.name.startswith((".", "pixels"))]


def test_damage_to_decoded_pixels_is_named(publish, data):
    publish("stl10")
    load_images("stl10")
    pixels = data / "stl10/pixels.npy"
    pixels.write_bytes(pixels.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"pixels.npy is damaged \(.*\): remove it to decode"):
        load_images("stl10")


def test_a_full_disk_while_decoding_leaves_no_pixels(publish, data, monkeypatch):
    publish("stl10")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "memmap", full)
        with pytest.raises(ValueError, match=r"cannot write \S*: No space left on device"):
            load_images("stl10")
    assert not [path for path in data.rglob("*") if path.name.startswith((".", "pixels"))]
    assert len(load_images("stl10").train) == 10


@pytest.mark.parametrize("name", READERS)
def test_the_catalog_names_the_archive_that_torchvision_reads(name):
    (file,) = source_of(name).files
    assert (file.url, file.checksum) == (READERS[name].url, f"md5:{READERS[name].tgz_md5}")

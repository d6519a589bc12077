from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bayescl_lab._downloads import DataSource
from bayescl_lab.images import catalog
from bayescl_lab.images.datasets import known_data_sets, load_images

RNG = np.random.default_rng(0)
NAMES = ("cifar10", "cifar100", "stl10", "tiny-imagenet")


def random_images(count: int, side: int) -> np.ndarray:
    return RNG.integers(0, 256, (count, 3, side, side), dtype=np.uint8)


class Published:
    """A small data set in the exact form of a published one, with what reading it must give."""

    def __init__(self, name: str) -> None:
        self.members: dict[str, bytes] = {}
        self.train: tuple[np.ndarray, list[int]]
        self.test: tuple[np.ndarray, list[int]]
        self.class_names: tuple[str, ...]
        getattr(self, f"make_{name.replace('-', '_')}")()

    def make_cifar10(self) -> None:
        self.class_names = ("airplane", "automobile", "bird")
        self.folder = "cifar-10-batches-bin"
        self.train, self.test = (
            (random_images(15, 32), [0, 1, 2] * 5),
            (random_images(3, 32), [2, 0, 1]),
        )
        records = [
            bytes([label]) + image.tobytes() for image, label in zip(*self.train, strict=True)
        ]
        for number in range(5):
            part = records[3 * number : 3 * number + 3]
            self.members[f"data_batch_{number + 1}.bin"] = b"".join(part)
        records = [
            bytes([label]) + image.tobytes() for image, label in zip(*self.test, strict=True)
        ]
        self.members["test_batch.bin"] = b"".join(records)
        self.members["batches.meta.txt"] = ("\n".join(self.class_names) + "\n\n").encode()

    def make_cifar100(self) -> None:
        self.class_names = ("apple", "bear", "chair")
        self.folder = "cifar-100-binary"
        for part, labels in (("train", [0, 1, 2, 2, 1]), ("test", [1, 0])):
            images = random_images(len(labels), 32)
            self.members[f"{part}.bin"] = b"".join(
                bytes([9, label]) + image.tobytes()
                for image, label in zip(images, labels, strict=True)
            )
            setattr(self, part, (images, labels))
        self.members["fine_label_names.txt"] = "\n".join(self.class_names).encode()
        self.members["coarse_label_names.txt"] = b"things\n"

    def make_stl10(self) -> None:
        self.class_names = ("airplane", "bird")
        self.folder = "stl10_binary"
        by_part = {"train": [0, 1, 0, 1, 0, 1], "test": [1, 1, 0], "unlabeled": [-1] * 4}
        images = {part: random_images(len(labels), 96) for part, labels in by_part.items()}
        for part, labels in by_part.items():
            # The published files hold each channel column by column, and labels from 1.
            self.members[f"{part}_X.bin"] = images[part].transpose(0, 1, 3, 2).tobytes()
            if part != "unlabeled":
                self.members[f"{part}_y.bin"] = bytes(label + 1 for label in labels)
        self.train = (
            np.concatenate([images["train"], images["unlabeled"]]),
            by_part["train"] + by_part["unlabeled"],
        )
        self.test = images["test"], by_part["test"]
        self.members["class_names.txt"] = "\n".join(self.class_names).encode()
        self.members["fold_indices.txt"] = b"0 1\n"

    def make_tiny_imagenet(self) -> None:
        self.folder = "tiny-imagenet-200"
        wnids = ["n01", "n03", "n02"]
        order = {"n01": 0, "n03": 1, "n02": 2}
        self.class_names = ("goldfish", "crane (n03)", "crane (n02)")
        self.members["wnids.txt"] = "\n".join(wnids).encode()
        self.members["words.txt"] = (
            b"n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane, machine\nn99\tother\n"
        )
        pictures, labels = [], []
        for wnid in wnids:
            for number in range(4):
                pictures.append(self.picture(f"train/{wnid}/images/{wnid}_{number}.JPEG"))
                labels.append(order[wnid])
        self.train = np.stack(pictures), labels
        pictures, lines = [], []
        for number, wnid in enumerate(["n02", "n01", "n03"]):
            grey = number == 1
            pictures.append(self.picture(f"val/images/val_{number}.JPEG", grey=grey))
            lines.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t62\n")
        self.members["val/val_annotations.txt"] = "".join(lines).encode()
        self.test = np.stack(pictures), [2, 0, 1]

    def picture(self, name: str, *, grey: bool = False) -> np.ndarray:
        content = io.BytesIO()
        smooth = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        image = Image.fromarray(smooth).resize((64, 64)).convert("L" if grey else "RGB")
        image.save(content, "JPEG")
        self.members[name] = content.getvalue()
        decoded = Image.open(io.BytesIO(content.getvalue())).convert("RGB")
        return np.asarray(decoded).transpose(2, 0, 1)

    def write_archive(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in self.members.items():
                    archive.writestr(f"{self.folder}/{name}", content)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for name, content in self.members.items():
                    info = tarfile.TarInfo(f"{self.folder}/{name}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path

    def write_folder(self, root: Path) -> None:
        for name, content in self.members.items():
            (root / self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (root / self.folder / name).write_bytes(content)


def md5_of(path: Path) -> str:
    return f"md5:{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"


def source_of(name: str) -> DataSource:
    (source,) = (source for source in catalog.SOURCES if source.name == name)
    return source


@pytest.fixture
def data() -> Path:
    return Path(os.environ["BAYESCL_DATA"])


@pytest.fixture
def publish(monkeypatch, data):
    """Make a small data set the published one, its archive in the data folder."""

    def make(name: str) -> tuple[Published, Path]:
        small, source = Published(name), source_of(name)
        archive = small.write_archive(data / name / source.files[0].filename)
        file = replace(source.files[0], checksum=md5_of(archive))
        monkeypatch.setattr(catalog, "SOURCES", (replace(source, files=(file,)),))
        return small, archive

    return make


def assert_same(store, expected: tuple[np.ndarray, list[int]]) -> None:
    images, labels = expected
    assert torch.equal(store.images, torch.from_numpy(images.copy()))
    assert store.labels.tolist() == labels


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_is_read_once_to_pixels_that_are_mapped_into_memory(publish, name):
    small, archive = publish(name)
    for _ in range(2):  # from the archive, then from the pixels that it became
        parts = load_images(name)
        assert_same(parts.train, small.train)
        assert_same(parts.evaluation, small.test)
        assert parts.train.class_names == small.class_names
        parts.train.images.zero_()  # of this process alone
        archive.unlink(missing_ok=True)


@pytest.mark.parametrize("form", ["unpacked", "unpacked into its own folder", "archive"])
def test_a_copy_that_is_there_is_used(publish, data, form):
    small, archive = publish("stl10")
    archive.rename(data / archive.name)
    if form != "archive":
        (data / archive.name).unlink()
        small.write_folder(data / "stl10" if "own" in form else data)
    assert_same(load_images("stl10").train, small.train)


@pytest.mark.parametrize("name", NAMES)
def test_an_absent_data_set_says_how_to_get_it_and_on_which_terms(name):
    with pytest.raises(ValueError) as caught:
        load_images(name)
    message = str(caught.value)
    for text in (f"'bayescl data fetch {name}'", source_of(name).terms, "MB"):
        assert text in message
    assert "\n" not in message


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_archive_is_refused_before_it_is_read(publish, damage):
    _, archive = publish("tiny-imagenet")
    content = bytearray(archive.read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged: md5 must be .*, got "):
        load_images("tiny-imagenet")
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.parametrize(
    ("name", "member", "content", "message"),
    [
        ("cifar10", "data_batch_3.bin", b"\0" * 3072, "data_batch_3.bin is damaged: 3072 bytes"),
        ("cifar10", "test_batch.bin", b"\7" + b"\0" * 3072, "label 7 has no class name"),
        ("cifar10", "data_batch_5.bin", None, "data_batch_5.bin"),
        ("cifar100", "train.bin", b"", "train.bin is damaged: 0 bytes are not whole records"),
        ("stl10", "unlabeled_X.bin", b"\0" * 100, "unlabeled_X.bin is damaged: 100 bytes"),
        ("stl10", "train_y.bin", b"\1", "train_X.bin is damaged: 6 images and 1 labels"),
        ("stl10", "test_y.bin", b"\0\1\1", "test_X.bin is damaged"),
        ("tiny-imagenet", "train/n01/images/n01_2.JPEG", b"nothing", "n01_2.JPEG is damaged: not"),
        ("tiny-imagenet", "wnids.txt", b"n01 n77", "the class n77 has no training images"),
        ("tiny-imagenet", "words.txt", None, "words.txt"),
        ("tiny-imagenet", "val/val_annotations.txt", b"val_0.JPEG\tn77\n", "is damaged.*n77"),
    ],
)
def test_damaged_members_are_refused_and_leave_no_store(
    monkeypatch, data, name, member, content, message
):
    small, source = Published(name), source_of(name)
    if content is None:
        del small.members[member]
    else:
        small.members[member] = content
    path = small.write_archive(data / source.files[0].filename)
    file = replace(source.files[0], checksum=md5_of(path))
    monkeypatch.setattr(catalog, "SOURCES", (replace(source, files=(file,)),))
    with pytest.raises(ValueError, match=message):
        load_images(name)
    assert not [path for path in data.rglob("*") if path.name.startswith((".", "pixels"))]


def test_a_damaged_store_says_what_to_remove(publish, data):
    publish("cifar10")
    load_images("cifar10")
    (data / "cifar10" / "pixels.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"pixels.npy is damaged \(.*\): remove it"):
        load_images("cifar10")


def test_unlabelled_images_train_and_are_never_held_out(publish):
    publish("stl10")
    parts = load_images("stl10", evaluate_on="validation")
    assert (parts.train.labels == -1).sum() == 4
    assert parts.evaluation.is_labelled
    labelled, _ = parts.labelled()
    assert len(labelled) + len(parts.evaluation) == 6
    assert labelled.is_labelled
    with pytest.raises(ValueError, match="the oracle loss needs the class of every image, 4 of"):
        parts.train.require_labels("the oracle loss")
    assert load_images("stl10", classes="bird,airplane").train.is_labelled


def test_every_source_is_a_known_data_set_with_a_sound_entry():
    for source in catalog.SOURCES:
        assert source.name in known_data_sets()
        assert source.kind == "images"
        assert source.terms
        assert source.homepage.startswith("http")
        for file in source.files:
            assert file.url.endswith(file.filename)
            assert len(file.checksum.removeprefix("md5:")) == 32
            assert file.size > 100e6

import io
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import datasets

from bayescl_lab._downloads import SOURCES
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


@pytest.fixture
def data() -> Path:
    return Path(os.environ["BAYESCL_DATA"])


@pytest.fixture
def publish(data, monkeypatch):
    """Put a small data set, possibly damaged, where fetching would unpack it."""
    # The checksums of torchvision are of the real files.
    check = "torchvision.datasets.{}.check_integrity"
    for module in ("cifar", "stl10"):
        monkeypatch.setattr(check.format(module), lambda path, md5=None: Path(path).is_file())

    def make(name: str, damage: dict[str, bytes | None] | None = None) -> Published:
        small = MAKE[name]()
        for member, content in {**small.members, **(damage or {})}.items():
            file = data / name / small.folder / member
            file.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                file.write_bytes(content)
        return small

    return make


def assert_same(store, expected: tuple[np.ndarray, list[int]]) -> None:
    images, labels = expected
    assert torch.equal(store.items, torch.from_numpy(images.copy()))
    assert store.labels.tolist() == labels


@pytest.mark.parametrize("name", MAKE)
def test_published_files_give_their_images_and_labels(publish, name):
    small = publish(name)
    parts = load_images(name)
    assert_same(parts.train, small.train)
    assert_same(parts.evaluation, small.test)
    assert parts.train.class_names == small.class_names
    if name == "stl10":
        labeled = [len(part) for part in load_images(name, evaluate_on="validation").labeled()]
        assert sum(labeled) == 6  # of ten training images


@pytest.mark.parametrize(
    ("name", "member", "content", "message"),
    [
        ("cifar10", "batches.meta", None, "is missing or damaged in .*: download it with 'bayescl"),
        ("stl10", "train_y.bin", None, "is missing or damaged in .*: download it with 'bayescl"),
        ("tiny-imagenet", "train/n01/images/n01_2.JPEG", b"nothing", "n01_2.JPEG is damaged: not"),
        ("tiny-imagenet", "wnids.txt", b"n01 n77", "the class n77 has no training images"),
        ("tiny-imagenet", "words.txt", None, "is missing or damaged in"),
        ("tiny-imagenet", "val/val_annotations.txt", b"val_0.JPEG\tn77\n", "is damaged.*n77"),
    ],
)
def test_damaged_files_are_refused(publish, name, member, content, message):
    publish(name, {member: content})
    with pytest.raises(ValueError, match=message):
        load_images(name)


@pytest.mark.parametrize("name", READERS)
def test_the_catalog_names_the_archive_that_torchvision_reads(name):
    source = SOURCES[name]
    assert (source.url, source.checksum) == (READERS[name].url, f"md5:{READERS[name].tgz_md5}")

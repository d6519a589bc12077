from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from bayescl_lab.images.datasets import load_images


def rows_as_bytes(store) -> list[bytes]:
    return [image.numpy().tobytes() for image in store.images]


def test_the_parts_of_digits_hold_every_image_once():
    parts = load_images("digits")
    images = (load_digits().images * 255 / 16).round().astype(np.uint8)
    expected = sorted(image.tobytes() for image in images)
    assert sorted(rows_as_bytes(parts.train) + rows_as_bytes(parts.evaluation)) == expected


def test_every_class_of_digits_is_split_70_to_30_alike_at_every_call():
    parts = load_images("digits")
    train = parts.train.labels.bincount(minlength=10).double()
    test = parts.evaluation.labels.bincount(minlength=10).double()
    assert torch.allclose(train / (train + test), torch.full((10,), 0.7).double(), atol=0.005)
    assert torch.equal(parts.train.images, load_images("digits").train.images)


def test_choosing_on_validation_never_touches_a_test_image():
    final = load_images("digits")
    choosing = load_images("digits", evaluate_on="validation")
    assert len(choosing.train) + len(choosing.evaluation) == len(final.train)
    used = sorted(rows_as_bytes(choosing.train) + rows_as_bytes(choosing.evaluation))
    assert used == sorted(rows_as_bytes(final.train))


def test_an_npz_file_with_its_own_split_keeps_it(tmp_path):
    images = np.arange(6, dtype=np.uint8).reshape(6, 1, 1)
    is_train = np.array([True, False, True, True, False, True])
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(6) % 2, is_train=is_train)
    parts = load_images(str(tmp_path / "a.npz"))
    assert parts.train.images.flatten().tolist() == [0, 2, 3, 5]
    assert parts.evaluation.images.flatten().tolist() == [1, 4]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((4, 2, 2))}, "lacks the array labels"),
        ({"images": np.zeros((1, 2, 2)), "labels": [0]}, "too few to split"),
        ({"images": np.zeros((9, 2, 2)), "labels": [-1] * 9}, "all labels are '-1'"),
        (
            {"images": np.zeros((2, 2, 2)), "labels": [0, 1], "is_train": [1, 0]},
            "is_train must hold one boolean",
        ),
        (
            {"images": np.zeros((2, 2, 2)), "labels": [0, 1], "is_train": [True, True]},
            "is_train must leave images",
        ),
    ],
)
def test_an_npz_file_that_cannot_train_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path / "a.npz"))


def test_an_npz_file_is_never_unpickled(tmp_path):  # of other damage see the hostile files
    np.savez(tmp_path / "a.npz", images=np.array([{}], dtype=object), labels=[0])
    with pytest.raises(ValueError, match="it holds Python objects"):
        load_images(str(tmp_path / "a.npz"))

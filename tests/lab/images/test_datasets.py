import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from bayescl_lab.images.datasets import load_images


def rows_as_bytes(store) -> list[bytes]:
    return [image.numpy().tobytes() for image in store.items]


def test_the_parts_of_digits_hold_every_image_once_and_70_of_100_of_each_class_train():
    parts = load_images("digits")
    images = (load_digits().images * 255 / 16).round().astype(np.uint8)
    expected = sorted(image.tobytes() for image in images)
    assert sorted(rows_as_bytes(parts.train) + rows_as_bytes(parts.evaluation)) == expected
    train, test = (it.labels.bincount() for it in (parts.train, parts.evaluation))
    torch.testing.assert_close(train / (train + test), torch.full((10,), 0.7), atol=0.005, rtol=0)
    choosing = load_images("digits", evaluate_on="validation")  # without a test image
    used = sorted(rows_as_bytes(choosing.train) + rows_as_bytes(choosing.evaluation))
    assert used == sorted(rows_as_bytes(parts.train))


def test_an_npz_file_with_its_own_split_keeps_it(tmp_path):
    images = np.arange(6, dtype=np.uint8).reshape(6, 1, 1)
    is_train = np.array([True, False, True, True, False, True])
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(6) % 2, is_train=is_train)
    parts = load_images(str(tmp_path / "a.npz"))
    assert parts.train.items.flatten().tolist() == [0, 2, 3, 5]
    assert parts.evaluation.items.flatten().tolist() == [1, 4]


IMAGES = np.arange(20, dtype=np.uint8).repeat(4).reshape(20, 2, 2)
KINDS = ["ant", "bee"] * 5
TWO = {"images": np.zeros((2, 2, 2)), "labels": [0, 1]}


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([0, 1] * 5 + [-1] * 10, ("0", "1")),
        ([0.0, 1.0] * 5 + [np.nan] * 10, ("0", "1")),
        (KINDS + [""] * 10, ("ant", "bee")),
    ],
)
def test_unlabeled_images_of_an_archive_train_and_never_judge(tmp_path, labels, names):
    np.savez(tmp_path / "a.npz", images=IMAGES, labels=labels, domains=KINDS * 2)
    parts = load_images(str(tmp_path / "a.npz"))
    assert parts.train.class_names == names
    assert "10 of 20" in parts.remarks[0]
    assert "2 domains: ant (10), bee (10)" in parts.remarks[1]
    assert (parts.evaluation.labels >= 0).all()
    for store in (parts.train, parts.evaluation):
        for value, label in zip(store.items[:, 0, 0, 0].tolist(), store.labels, strict=True):
            assert label == (value % 2 if value < 10 else -1)
    assert int((parts.train.labels == -1).sum()) == 10


def test_an_archive_without_labels_is_trained_on(tmp_path):
    for name, arrays in {"a": {}, "b": {"labels": [-1] * 20}, "c": {"labels": [""] * 20}}.items():
        np.savez(tmp_path / f"{name}.npz", images=IMAGES, **arrays)
        parts = load_images(str(tmp_path / f"{name}.npz"))
        assert (len(parts.train), parts.evaluation) == (20, None)
        assert parts.train.class_names == ()


@pytest.mark.parametrize(
    ("keep", "train", "evaluation"),
    [(0, [7, 3], [3, 1]), (3, [7, 3], [3, 1]), (4, [7, 4], [3, 0]), (8, [8, 4], [2, 0])],
)
def test_labels_that_training_asks_for_are_not_held_out(tmp_path, keep, train, evaluation):
    np.savez(tmp_path / "a.npz", images=IMAGES[:14], labels=[0] * 10 + [1] * 4)
    parts = load_images(str(tmp_path / "a.npz"), labels_per_class=keep)
    assert parts.train.labels.bincount().tolist() == train
    assert parts.evaluation.labels.bincount(minlength=2).tolist() == evaluation
    rest = load_images(str(tmp_path / "a.npz"), labels_per_class=10)
    assert rest.evaluation is None
    assert "all labeled images are used for training" in rest.remarks[-1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": [0, 1]}, "has no array images"),
        ({"images": np.zeros((1, 2, 2)), "labels": [0]}, "1 labeled image cannot be split"),
        ({"images": np.zeros((9, 2, 2)), "labels": [3] * 9}, "all labels are '3'"),
        ({**TWO, "is_train": [1, 0]}, "is_train must have one boolean"),
        ({**TWO, "is_train": [True, True]}, "is_train must be true for some images, not all"),
        ({"images": np.array([{}], dtype=object), "labels": [0]}, "it contains Python objects"),
    ],
)
def test_an_npz_file_that_cannot_train_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 6, 8, 3), (3, 6, 8)),
        ((4, 6, 8, 1), (1, 6, 8)),
        ((4, 6, 8, 5), (5, 6, 8)),
        ((4, 2, 6, 8), (2, 6, 8)),
        ((4, 3, 8, 3), "may have their channels first or last: such"),
        ((4, 8, 8, 8), "may have their channels first or last: such"),
    ],
)
def test_channels_come_first_or_last(tmp_path, shape, expected):
    images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=images)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            load_images(str(tmp_path / "a.npz"))
        return
    store = load_images(str(tmp_path / "a.npz")).train
    assert store.item_shape == expected
    is_last = expected[0] == shape[3]
    np.testing.assert_array_equal(store.items, images.transpose(0, 3, 1, 2) if is_last else images)


def test_words_for_unknown_are_counted_and_may_be_named(tmp_path):
    labels = ["none", "mild", "NA", "?"] * 5
    np.savez(tmp_path / "a.npz", images=IMAGES, labels=labels)
    parts = load_images(str(tmp_path / "a.npz"))
    assert parts.train.class_names == ("mild", "none")
    assert "strings that mean unknown: 'NA' (5), '?' (5) (--unknown to change)" in parts.remarks[0]
    chosen = load_images(str(tmp_path / "a.npz"), unknown=("none",))
    assert chosen.train.class_names == ("?", "NA", "mild")

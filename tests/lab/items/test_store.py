import numpy as np
import pytest
import torch

from bayescl_lab.images.pixels import store_from_arrays

RNG = np.random.default_rng(0)


def test_bytes_and_fractions_of_the_same_images_make_the_same_store():
    pixels = RNG.integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)
    labels = np.array([0, 1, 2, 0, 1])
    from_bytes = store_from_arrays(pixels, labels)
    from_fractions = store_from_arrays(pixels / 255, labels)
    assert torch.equal(from_bytes.items, from_fractions.items)
    assert from_bytes.items.dtype == torch.uint8
    assert from_bytes.item_shape == (3, 4, 6)


def test_labels_are_counted_from_zero_in_ascending_order_and_follow_their_images():
    labels = np.array([7, -1, 40, 7])
    store = store_from_arrays(np.arange(16, dtype=np.uint8).reshape(4, 2, 2), labels)
    assert store.labels.tolist() == [0, -1, 1, 0]
    assert store.class_names == ("7", "40")
    subset = store.subset(torch.tensor([2, 0]))
    assert subset.items[:, 0, 0, 0].tolist() == [8, 0]
    assert subset.labels.tolist() == [1, 0]
    assert subset.num_classes == 2


def test_a_store_does_not_change_with_the_array_it_came_from():
    pixels = np.zeros((2, 2, 2), dtype=np.uint8)
    store = store_from_arrays(pixels, np.array([0, 1]))
    pixels += 9
    assert store.items.sum() == 0


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.full((2, 2, 2), np.nan), [0, 1], "images must be finite, got 8 NaN or infinite"),
        (np.full((2, 2, 2), np.inf), [0, 1], "images must be finite"),
        (np.zeros((0, 2, 2)), [], "there are no images"),
        (np.zeros((2, 0, 2)), [0, 1], "there are no images"),
        (np.zeros((3, 2, 2)), [0, 1], "labels must have one value per item, got 3 items"),
        (np.full((2, 2, 2), 1.5), [0, 1], r"must lie in \[0, 1\], got 1.5 to 1.5"),
        (np.full((2, 2, 2), 300), [0, 1], r"must lie in \[0, 255\], got 300"),
        (np.full((2, 2, 2), "a"), [0, 1], "must contain numbers"),
        (np.zeros((2, 2)), [0, 1], "images must have shape"),
        (np.zeros((2, 2, 2)), [0.5, 1.0], "labels must be integers or strings, got fractions"),
    ],
)
def test_arrays_that_are_no_images_are_refused(images, labels, message):
    labels = np.asarray(labels, dtype=None if labels else np.int64)
    with pytest.raises(ValueError, match=message):
        store_from_arrays(images, labels)

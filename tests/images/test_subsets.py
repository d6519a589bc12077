from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.store import ImageStore
from bayescl_lab.images.subsets import balanced_rows, chosen_classes, only_classes

NAMES = ("ant", "bee", "cow", "dog", "eel")


def a_store(labels: list[int], shape: tuple[int, ...] = (1, 2, 2)) -> ImageStore:
    """Images that hold their own row number."""
    pixels = torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, *shape)
    return ImageStore(pixels.clone(), torch.tensor(labels), NAMES)


@pytest.mark.parametrize("count", [5, 7, 10, 23, 50])
def test_a_balanced_choice_has_classes_that_differ_by_one_at_most(count):
    labels = torch.arange(100) % 5
    counts = labels[balanced_rows(labels, count, seed=0)].bincount(minlength=5)
    assert counts.sum() == count
    assert counts.max() - counts.min() <= 1


def test_a_choice_depends_on_its_seed_alone_and_a_larger_one_contains_a_smaller():
    labels = torch.arange(200) % 4
    small, large = (set(balanced_rows(labels, n, seed=2).tolist()) for n in (40, 100))
    assert small < large
    assert small == set(balanced_rows(labels, 40, seed=2).tolist())
    assert small != set(balanced_rows(labels, 40, seed=3).tolist())
    assert balanced_rows(torch.tensor([0, 1, 1]), 9, seed=0).tolist() == [0, 1, 2]


def test_unlabeled_rows_keep_their_share():
    labels = torch.cat([torch.arange(20) % 2, torch.full((80,), -1)])
    chosen = labels[balanced_rows(labels, 50, seed=0)]
    assert (chosen == -1).sum() == 40
    assert chosen[chosen >= 0].bincount().tolist() == [5, 5]


def test_classes_by_name_keep_the_order_of_the_data_set_and_a_lone_number_is_a_count():
    assert chosen_classes(NAMES, "dog, bee") == ("bee", "dog")
    assert chosen_classes(tuple("0123456789"), "3,8") == ("3", "8")
    assert len(chosen_classes(NAMES, "2")) == 2


def test_drawn_classes_depend_on_the_seed_and_more_include_fewer():
    drawn = {chosen_classes(NAMES, "2", seed=seed) for seed in range(60)}
    assert len(drawn) == 10  # every pair of five
    assert set(chosen_classes(NAMES, "2")) < set(chosen_classes(NAMES, "3"))


def test_two_classes_keep_their_images_and_are_counted_anew():
    subset = only_classes(a_store([0, 3, 1, -1, 3, 1, 4]), ("bee", "dog"))
    assert subset.images[:, 0, 0, 0].tolist() == [1, 2, 4, 5]
    assert subset.labels.tolist() == [1, 0, 1, 0]
    assert subset.class_names == ("bee", "dog")
    with pytest.raises(ValueError, match="there are no images of cow"):
        only_classes(a_store([0, 1]), ("cow",))


def test_two_digits_are_those_digits_in_both_parts():
    parts = load_images("digits", classes="3,8")
    bunch = load_digits()
    images = (bunch.images * 255 / 16).round().astype(np.uint8)
    for label, digit in enumerate((3, 8)):
        chosen = [part.images[part.labels == label] for part in (parts.train, parts.evaluation)]
        expected = images[bunch.target == digit]
        assert sorted(map(bytes, torch.cat(chosen).numpy())) == sorted(map(bytes, expected))
    # "2" alone is a number of classes, although it is also the name of one.
    assert load_images("digits", classes="2").train.num_classes == 2


@pytest.mark.parametrize("evaluate_on", ["test", "validation"])
def test_a_limit_on_training_images_never_changes_what_judges(evaluate_on):
    all_parts = load_images("digits", evaluate_on=evaluate_on)
    some = load_images("digits", evaluate_on=evaluate_on, max_train_images=200)
    assert some.train.labels.bincount().tolist() == [20] * 10
    assert torch.equal(some.evaluation.images, all_parts.evaluation.images)
    rows = {image.numpy().tobytes() for image in all_parts.train.images}
    assert all(image.numpy().tobytes() in rows for image in some.train.images)


def test_a_subset_shares_its_pixels_and_reads_like_a_copy():
    whole = a_store([0, 1, 2, 3, 4, 0, 1, 2])
    rows = torch.tensor([6, 1, 3, 4, 0])
    copied = ImageStore(whole.pixels[rows], whole.labels[rows], NAMES)
    shared = whole.subset(rows)
    assert shared.pixels.data_ptr() == whole.pixels.data_ptr()
    again = shared.subset(torch.tensor([4, 2]))
    assert again.pixels.data_ptr() == whole.pixels.data_ptr()
    assert torch.equal(shared.images, copied.images)
    assert torch.equal(shared.labels, copied.labels)
    assert len(shared) == 5
    assert torch.equal(shared.take(torch.tensor([3, 3])), copied.images[[3, 3]])
    assert again.images[:, 0, 0, 0].tolist() == [0, 3]
    assert torch.equal(only_classes(shared, ("bee", "dog")).images, copied.images[:3])

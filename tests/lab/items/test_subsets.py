import pytest
import torch

from bayescl_lab.images.datasets import load_images
from bayescl_lab.items.store import ItemStore
from bayescl_lab.items.subsets import chosen_classes, only_classes, stratified_split

NAMES = ("ant", "bee", "cow", "dog", "eel")


def a_store(labels: list[int], shape: tuple[int, ...] = (1, 2, 2)) -> ItemStore:
    """Images that hold their own row number."""
    pixels = torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, *shape)
    return ItemStore(pixels.clone(), torch.tensor(labels), NAMES)


def test_a_split_depends_on_its_seed_alone_and_a_larger_one_contains_a_smaller():
    labels = torch.cat([torch.arange(200) % 4, torch.full((20,), -1)])
    small, large = (
        set(stratified_split(labels, share=it, seed=2)[0].tolist()) for it in (0.2, 0.5)
    )
    assert small < large
    assert labels[[*small]].unique(return_counts=True)[1].tolist() == [4, 10, 10, 10, 10]
    assert small == set(stratified_split(labels, share=0.2, seed=2)[0].tolist())
    assert small != set(stratified_split(labels, share=0.2, seed=3)[0].tolist())


def test_classes_keep_the_order_of_the_data_set():
    assert chosen_classes(NAMES, "dog, bee") == ("bee", "dog")


def test_two_classes_keep_their_images_and_are_counted_anew():
    subset = only_classes(a_store([0, 3, 1, -1, 3, 1, 4]), ("bee", "dog"))
    assert subset.items[:, 0, 0, 0].tolist() == [1, 2, 4, 5]
    assert subset.labels.tolist() == [1, 0, 1, 0]
    assert subset.class_names == ("bee", "dog")
    with pytest.raises(ValueError, match="there are no images of cow"):
        only_classes(a_store([0, 1]), ("cow",))


@pytest.mark.parametrize("evaluate_on", ["test", "validation"])
def test_a_limit_on_training_images_never_changes_what_judges(evaluate_on):
    all_parts = load_images("digits", evaluate_on=evaluate_on)
    some = load_images("digits", evaluate_on=evaluate_on, max_train_images=200)
    assert set(some.train.labels.bincount().tolist()) == {19, 20}
    assert torch.equal(some.evaluation.items, all_parts.evaluation.items)
    rows = {image.numpy().tobytes() for image in all_parts.train.items}
    assert all(image.numpy().tobytes() in rows for image in some.train.items)


def test_a_subset_shares_its_pixels_and_reads_like_a_copy():
    whole = a_store([0, 1, 2, 3, 4, 0, 1, 2])
    rows = torch.tensor([6, 1, 3, 4, 0])
    copied = ItemStore(whole.tensor[rows], whole.labels[rows], NAMES)
    shared = whole.subset(rows)
    assert shared.tensor.data_ptr() == whole.tensor.data_ptr()
    again = shared.subset(torch.tensor([4, 2]))
    assert again.tensor.data_ptr() == whole.tensor.data_ptr()
    assert torch.equal(shared.items, copied.items)
    assert torch.equal(shared.labels, copied.labels)
    assert len(shared) == 5
    assert torch.equal(shared.take(torch.tensor([3, 3])), copied.items[[3, 3]])
    assert again.items[:, 0, 0, 0].tolist() == [0, 3]
    assert torch.equal(only_classes(shared, ("bee", "dog")).items, copied.items[:3])

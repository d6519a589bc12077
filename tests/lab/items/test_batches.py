import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bayescl_lab.images.datasets import load_images
from bayescl_lab.items.batches import EpochOrder, StoreBatches
from bayescl_lab.items.store import ItemStore


def order(epoch: int, seed: int = 0) -> torch.Tensor:
    sampler = EpochOrder(100, 16, seed)
    sampler.set_epoch(epoch)
    return torch.stack(list(sampler))


def test_an_epoch_shows_no_image_twice_and_epochs_leave_out_different_ones():
    rows = [order(epoch).flatten() for epoch in range(4)]
    assert all(len(epoch) == len(epoch.unique()) == 96 for epoch in rows)
    assert len({frozenset(range(100)) - set(epoch.tolist()) for epoch in rows}) == 4


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else():
    torch.manual_seed(1)
    first = order(3)
    torch.manual_seed(2)
    order(0)
    assert torch.equal(order(3), first)
    assert not torch.equal(order(4), first)
    assert not torch.equal(order(3, seed=1), first)


def test_batches_hold_each_image_with_its_own_label():
    store = load_images("digits").train
    label_of = {
        image.numpy().tobytes(): int(label)
        for image, label in zip(store.items, store.labels, strict=True)
    }
    for batch in StoreBatches(store, EpochOrder(len(store), 256, 0)):
        for image, label in zip(batch.items, batch.labels, strict=True):
            assert label_of[image.numpy().tobytes()] == int(label)


def test_devices_take_their_parts_of_the_same_batches():
    whole = list(EpochOrder(100, 16, 0))
    parts = [list(EpochOrder(100, 16, 0, rank=rank, num_ranks=4)) for rank in range(4)]
    for number, rows in enumerate(whole):
        assert torch.equal(torch.cat([part[number] for part in parts]), rows)


def test_a_gpu_indexes_images_labels_and_what_is_known_without_a_copy_from_the_host():
    with FakeTensorMode():  # an index on the CPU would be a tensor on the CPU
        pixels = torch.zeros(20, 3, 4, 4, dtype=torch.uint8, device="cuda")
        labels = torch.zeros(20, dtype=torch.int64, device="cuda")
        store = ItemStore(pixels, labels, ("a", "b"))
        batches = StoreBatches(store, EpochOrder(20, 8, 0), {"teacher": torch.zeros(20, 5)})
        epoch = iter(batches)
        first = next(epoch)
        with NothingOnTheHost():
            second = next(epoch)
    for batch in (first, second):
        values = (batch.items, batch.labels, batch.known["teacher"])
        assert [list(value.shape) for value in values] == [[8, 3, 4, 4], [8], [8, 5]]
        assert {value.device.type for value in values} == {"cuda"}


class NothingOnTheHost(TorchDispatchMode):
    """Refuse operations on tensors of the CPU."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        tensors = tree_leaves((args, kwargs, result))
        assert not any(isinstance(t, torch.Tensor) and t.device.type == "cpu" for t in tensors)
        return result

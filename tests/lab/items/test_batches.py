import torch

from bayescl_lab.images.datasets import load_images
from bayescl_lab.items.batches import EpochOrder, StoreBatches


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

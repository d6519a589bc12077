"""Batches of few domains: every item once, few domains a batch, the same order again."""

from __future__ import annotations

import pytest
import torch

from bayescl import DomainBatchSampler

DOMAINS = torch.arange(1000) % 20


def test_every_item_comes_once_and_batches_hold_few_domains() -> None:
    sampler = DomainBatchSampler(DOMAINS, 96, 4)
    batches = list(sampler)
    assert len({item for batch in batches for item in batch}) == 10 * 96
    assert len(batches) == len(sampler) == 10
    held = [len(DOMAINS[batch].unique()) for batch in batches]
    assert sum(held) / len(held) < 9  # 20 in a random batch


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    first, again = (DomainBatchSampler(DOMAINS, 50, seed=3) for _ in range(2))
    assert list(first) == list(again)
    again.set_epoch(1)
    assert list(first) != list(again)


def test_processes_share_an_epoch_without_overlap() -> None:
    parts = [DomainBatchSampler(DOMAINS, 48, rank=rank, num_processes=2) for rank in range(2)]
    drawn = [list(part) for part in parts]
    assert len(drawn[0]) == len(drawn[1]) == len(parts[0]) == 10
    items = [item for part in drawn for batch in part for item in batch]
    assert len(set(items)) == len(items)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 4, "num_domains": 5}, "num_domains must be at most batch_size"),
        ({"batch_size": 2000}, "batch_size must leave every process a batch"),
        ({"batch_size": 4, "rank": 1}, "rank must be below num_processes"),
    ],
)
def test_bad_numbers_are_refused(arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DomainBatchSampler(DOMAINS, **arguments)

"""Batches of few domains: every item once, few domains a batch, the same order again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bayescl import DomainBatchSampler

DOMAINS = torch.arange(1000) % 20


def test_every_item_comes_once_and_batches_hold_few_domains() -> None:
    sampler = DomainBatchSampler(DOMAINS, 96, 4, drop_last=False)
    batches = list(sampler)
    assert sorted(item for batch in batches for item in batch) == list(range(1000))
    assert len(batches) == len(sampler) == 11
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


def test_it_continues_in_the_midst_of_an_epoch() -> None:
    whole = list(DomainBatchSampler(DOMAINS, 50))
    sampler = DomainBatchSampler(DOMAINS, 50)
    steps = iter(sampler)
    begun = [next(steps) for _ in range(7)]
    resumed = DomainBatchSampler(DOMAINS, 50)
    resumed.load_state_dict(sampler.state_dict())
    assert [*begun, *resumed] == whole
    assert list(resumed) == whole  # the next epoch starts anew


@pytest.mark.parametrize("size", [2, 3, 8])
def test_small_domains_are_named_with_their_size_and_what_to_do(size: int) -> None:
    words = rf"domains of at most {size} items.*: merge similar domains, or pass -1 for items"
    with pytest.warns(UserWarning, match=words):
        DomainBatchSampler(torch.arange(240) // size, 64, 4)


@pytest.mark.parametrize("size", [9, 20])
def test_domains_that_give_enough_candidates_are_no_reason_to_warn(size: int) -> None:
    DomainBatchSampler(torch.arange(180) // size, 64, 4)
    DomainBatchSampler(torch.arange(180) // 4, 16, 4)  # pieces of 4 are all that is asked for


@pytest.mark.parametrize(
    "domains",
    [
        [0.5, 1.0, 2.0, 2.0],
        np.array([0.0, 1.0]),
        torch.rand(4),
        ["a", "b"],
        np.array(["a", "b"]),
        [1, None],
        None,
        "ab",
        torch.tensor([1j, 2j]),
    ],
)
def test_domains_that_are_not_integers_are_refused(domains: object) -> None:
    with pytest.raises(ValueError, match="domains must hold integers, got"):
        DomainBatchSampler(domains, 2, 1)


@pytest.mark.parametrize("domains", [[], 3, torch.zeros(3, 2, dtype=torch.int64)])
def test_domains_are_one_per_item(domains: object) -> None:
    with pytest.raises(ValueError, match=r"domains must (be one per item|have shape)"):
        DomainBatchSampler(domains, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 4, "num_domains": 5}, "num_domains must be at most batch_size"),
        ({"batch_size": 2000}, "batch_size must be small enough for one batch"),
        ({"batch_size": 4, "rank": 1, "num_processes": 1}, "rank must be below num_processes"),
        ({"batch_size": 4, "rank": 1}, "rank and num_processes must be given together"),
    ],
)
def test_bad_numbers_are_refused(arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DomainBatchSampler(DOMAINS, **arguments)

"""Batches of few domains: every item once, few domains a batch, the same order again."""

import numpy as np
import pytest
import torch

from bayescl import DomainBatchSampler

DOMAINS = torch.arange(1000) % 20


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("num_domains", [1, 4, 30])
def test_a_batch_holds_exactly_num_domains(num_domains, drop_last):
    domains = torch.arange(1003) % 20
    held = min(num_domains, 20)
    sampler = DomainBatchSampler(domains, 32, num_domains, drop_last=drop_last)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert max(len(domains[batch].unique()) for batch in batches) == held
    items = [item for batch in batches for item in batch]
    assert len(items) == len(set(items))
    if drop_last:
        assert {len(domains[batch].unique()) for batch in batches} == {held}
        assert {len(batch) for batch in batches} == {32 // held * held}
    else:
        assert sorted(items) == list(range(1003))
        assert max(map(len, batches)) <= 32


def test_unequal_domains_share_batches_as_far_as_they_suffice():
    domains = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    batches = list(DomainBatchSampler(domains, 40, 2))
    assert sum(len(domains[batch].unique()) == 2 for batch in batches) == 5  # four pieces and one
    skipped = set(range(1000)) - {item for batch in batches for item in batch}
    assert len(skipped) == 10  # of the second domain
    sampler = DomainBatchSampler(domains, 40, 2)
    seen = {item for _ in range(4) for batch in sampler for item in batch}
    assert skipped <= seen  # other items are skipped in other epochs


def test_each_epoch_has_its_own_order_and_it_depends_on_seed_and_epoch_alone():
    first, again = (DomainBatchSampler(DOMAINS, 50, seed=3) for _ in range(2))
    epochs = [list(first) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    again.set_epoch(1)
    assert list(again) == epochs[1]
    assert next(iter(again)) != next(iter(again))  # also if an epoch is left before its end
    assert [list(DomainBatchSampler(DOMAINS, 50, seed=3))] == epochs[:1]


def test_processes_share_an_epoch_without_overlap():
    parts = [DomainBatchSampler(DOMAINS, 48, rank=rank, num_processes=2) for rank in range(2)]
    drawn = [list(part) for part in parts]
    assert len(drawn[0]) == len(drawn[1]) == len(parts[0]) == 10
    items = [item for part in drawn for batch in part for item in batch]
    assert len(set(items)) == len(items)


def test_it_continues_in_the_middle_of_an_epoch():
    other = DomainBatchSampler(DOMAINS, 50)
    whole, following = list(other), list(other)
    sampler = DomainBatchSampler(DOMAINS, 50)
    steps = iter(sampler)
    begun = [next(steps) for _ in range(7)]
    resumed = DomainBatchSampler(DOMAINS, 50)
    resumed.load_state_dict(sampler.state_dict())
    assert [*begun, *resumed] == whole
    assert list(resumed) == following


@pytest.mark.parametrize("size", [2, 3, 8])
def test_small_domains_are_named_with_their_size_and_what_to_do(size):
    words = rf"domains of at most {size} items.*: merge similar domains, or set the domain"
    with pytest.warns(UserWarning, match=words):
        DomainBatchSampler(torch.arange(240) // size, 64, 4)


@pytest.mark.parametrize("size", [9, 20])
def test_domains_that_give_enough_candidates_are_no_reason_to_warn(size):
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
def test_domains_that_are_not_integers_are_refused(domains):
    with pytest.raises(ValueError, match="domains must contain integers, got"):
        DomainBatchSampler(domains, 2, 1)


@pytest.mark.parametrize("domains", [[], 3, torch.zeros(3, 2, dtype=torch.int64)])
def test_domains_are_one_per_item(domains):
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
def test_bad_numbers_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        DomainBatchSampler(DOMAINS, **arguments)

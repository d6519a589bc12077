"""The rule that says which columns count, against one pair at a time."""

from __future__ import annotations

import torch

from bayescl.engines import CandidateRule


def test_every_exclusion_takes_its_pairs_out() -> None:
    generator = torch.Generator().manual_seed(0)
    valid = torch.rand(6, 9, generator=generator) < 0.7
    anchor_groups = torch.randint(0, 3, (6,), generator=generator)
    candidate_groups = torch.randint(0, 3, (9,), generator=generator)
    own, positive = torch.arange(6), torch.arange(6).flip(0) + 3
    rule = CandidateRule(own, positive, anchor_groups, candidate_groups, valid)
    mask = rule.mask(slice(0, 6), 9, torch.device("cpu"))
    assert mask is not None
    for i in range(6):
        for j in range(9):
            expected = (
                bool(valid[i, j])
                and anchor_groups[i] != candidate_groups[j]
                and j not in (own[i], positive[i])
            )
            assert bool(mask[i, j]) == expected


def test_a_few_rows_of_the_mask_are_rows_of_the_whole() -> None:
    groups = torch.tensor([0, 1, 0, 2, 1])
    rule = CandidateRule(torch.arange(5), None, groups, groups.expand(5, 5))
    whole = rule.mask(slice(0, 5), 5, torch.device("cpu"))
    part = rule.mask(slice(2, 4), 5, torch.device("cpu"))
    assert whole is not None
    assert part is not None
    assert torch.equal(part, whole[2:4])


def test_no_exclusion_needs_no_mask() -> None:
    assert CandidateRule().mask(slice(0, 3), 4, torch.device("cpu")) is None


def test_the_callers_mask_is_left_alone() -> None:
    valid = torch.ones(2, 2, dtype=torch.bool)
    CandidateRule(own=torch.arange(2), valid=valid).mask(slice(0, 2), 2, torch.device("cpu"))
    assert valid.all()

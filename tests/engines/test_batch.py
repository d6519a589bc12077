"""The rule that says which columns count, against one pair at a time."""

from __future__ import annotations

import torch

from bayescl.engines import CandidateRule

CPU = torch.device("cpu")


def test_every_exclusion_takes_its_pairs_out_and_leaves_the_callers_mask_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    valid = torch.rand(6, 9, generator=generator) < 0.7
    anchor_groups = torch.randint(0, 3, (6,), generator=generator)
    candidate_groups = torch.randint(0, 3, (9,), generator=generator)
    own, positive = torch.arange(6), torch.arange(6).flip(0) + 3
    for keys in (candidate_groups, candidate_groups.expand(6, 9)):
        given = valid.clone()
        rule = CandidateRule(own, positive, anchor_groups, keys, given)
        mask = rule.mask(slice(0, 6), 9, CPU)
        expected = [
            [
                bool(valid[i, j])
                and bool(anchor_groups[i] != candidate_groups[j])
                and j not in (own[i], positive[i])
                for j in range(9)
            ]
            for i in range(6)
        ]
        assert mask is not None
        assert mask.tolist() == expected
        assert torch.equal(given, valid)
        part = rule.mask(slice(2, 4), 9, CPU)
        assert part is not None
        assert torch.equal(part, mask[2:4])


def test_no_exclusion_needs_no_mask() -> None:
    assert CandidateRule().mask(slice(0, 3), 4, CPU) is None

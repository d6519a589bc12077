"""A nuisance is in both views of an image."""

from __future__ import annotations

import nuisance
import pytest
import torch


@pytest.mark.parametrize("kind", ["marks", "backgrounds", "stripes"])
def test_both_views_of_an_image_carry_its_nuisance_and_no_other(kind):
    over = nuisance.overlays(kind)
    assert 0 <= over.min() < over.max() <= 1
    data = nuisance.nuisance_set(kind, "validation")
    rows = torch.arange(64)
    for view in data.views(rows):  # an overlay is a bright floor, up to its own brightness
        missing = (over[None] - view[:, None]).clamp_min(0).flatten(2).sum(dim=2)
        own = missing.gather(1, data.nuisance[rows, None]).squeeze(1)
        assert own.mean() < missing.mean() / 3
    assert len(data.nuisance.unique()) == nuisance.NUISANCES


def test_a_summary_compares_runs_of_one_seed_with_each_other():
    about = {"data": "marks", "temperature": 0.25, "head": True, "batch": 256}
    lines = [
        about | {"method": method, "seed": seed, "scores": {"knn": knn}}
        for method, seed, knn in [
            ("info_nce", 1, 0.5),
            ("info_nce", 2, 0.9),
            ("info_nce_domains", 2, 0.8),
        ]
    ]
    base, other = nuisance.summary(lines)
    assert base["scores"]["knn"]["mean"] == pytest.approx(0.7)
    assert base["above_info_nce"]["knn"]["mean"] == 0
    assert other["seeds"] == 1
    assert other["above_info_nce"]["knn"]["mean"] == pytest.approx(-0.1)

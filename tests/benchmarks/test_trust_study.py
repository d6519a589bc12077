"""The latent-class loss that looks on does so, and its pairs are counted right."""

from __future__ import annotations

import pytest
import torch
from trust_study import Onlooker, summary

from bayescl import InfoNCELoss

TWO_POLES = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(40, 1)
LABELS = torch.tensor([0, 1]).repeat(40)


def views(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [TWO_POLES + 0.05 * torch.randn(80, 2, generator=generator) for _ in range(2)]


def test_who_looks_on_has_no_say() -> None:
    loss, alone = Onlooker(0.5, num_classes=2), InfoNCELoss(temperature=0.5)
    for step in range(3):
        pairs = [[view.clone().requires_grad_() for view in views(step)] for _ in range(2)]
        loss(*pairs[0], groups=LABELS).backward()
        alone(*pairs[1]).backward()
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(*pairs, strict=True))


def test_pairs_are_counted_once_there_is_a_fit() -> None:
    loss = Onlooker(0.5, num_classes=2)
    for step in range(3):
        loss(*views(step), groups=LABELS)
    assert len(loss.counts) == 2
    assert loss.counts[-1]["pairs"] == 80 * 79
    assert loss.counts[-1]["same"] == 2 * 40 * 39
    assert loss.counts[-1]["right"] == loss.counts[-1]["sure"] == loss.counts[-1]["same"]


def test_epochs_are_summed_up_by_their_trust() -> None:
    made = [(0.0, 0.1, 0.2), (0.0, 0.3, 0.4), (1.0, 0.9, 0.8)]
    records = [
        {"data": "d", "trust": trust, "agreement": agreement, "precision": precision, "recall": 0.5}
        for trust, agreement, precision in made
    ]
    records.append({**records[0], "precision": None})
    found = summary(records)
    assert [(row["trust"], row["epochs"]) for row in found["by_trust"]] == [("0", 2), ("1", 1)]
    assert found["by_trust"][0]["precision_lowest"] == pytest.approx(0.2)
    assert found["rank_correlation"] == 1

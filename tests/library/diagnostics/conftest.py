from collections.abc import Callable

import pytest
import torch
from reference.process import draw_scores

import bayescl
from bayescl.diagnostics import ScoredCandidates, score_candidates


@pytest.fixture
def processed() -> Callable[..., ScoredCandidates]:
    """Candidates of the paper's generative process, scored by a Bayesian loss."""

    def draw(alpha: float = 0.9, tau_plus: float = 0.1, anchors: int = 3000) -> ScoredCandidates:
        own = {"alpha": alpha, "tau_plus": tau_plus}
        positive, unlabeled, truth = draw_scores(anchors, **own)
        loss = bayescl.BayesianContrastiveLoss(beta=0.5, **own)
        return score_candidates(loss, positive, unlabeled, layout="logits", false_negative=truth)

    return draw


@pytest.fixture
def views() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two views of 24 items in four classes, and their labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 4
    centers = torch.randn(4, 8, generator=generator)
    items = centers[labels] + 0.8 * torch.randn(24, 8, generator=generator)
    noise = 0.3 * torch.randn(2, 24, 8, generator=generator)
    return items + noise[0], items + noise[1], labels

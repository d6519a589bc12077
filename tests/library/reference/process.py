"""The paper's generative process, drawn pair by pair: a class takes the higher or lower score."""

import torch


def draw_scores(
    anchors: int, *, alpha: float, tau_plus: float, candidates: int = 64
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of one positive and of unlabeled candidates per anchor, and which are positives.

    Of two uniform scores, a positive has the higher one with probability alpha, and a true negative
    the lower one.
    """
    source = torch.Generator().manual_seed(round(1000 * alpha + 100 * tau_plus))
    size = (anchors, 1 + candidates)
    truth = torch.rand(size, generator=source, dtype=torch.float64) < tau_plus
    truth[:, 0] = True
    low, high = torch.rand((2, *size), generator=source, dtype=torch.float64).sort(dim=0).values
    is_ordered = torch.rand(size, generator=source, dtype=torch.float64) < alpha
    scores = torch.where(is_ordered == truth, high, low)
    return scores[:, 0], scores[:, 1:].contiguous(), truth[:, 1:]


def pair_auc(alpha: float) -> float:
    """The AUC of independent positives and true negatives."""
    return 0.5 + (2 * alpha - 1) / 3

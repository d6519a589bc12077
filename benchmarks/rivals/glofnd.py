"""GloFND: each item learns the similarity above which a candidate counts as false negative.

Reference:
    Balmaseda et al., "Discovering Global False Negatives On the Fly for Self-supervised
    Contrastive Learning", ICML 2025; the authors' code is vibalcam/GloFND. The threshold of an
    item is the quantile ``1 - share`` of its similarities, found by stochastic gradient (Adam),
    and what lies above it is left out of the denominator, which keeps its size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bayescl.checks import check_positive
from rivals.steps import Rival, Sizes, Step, TwoViewLogits, two_view_logits


class GloFND(Rival):
    """InfoNCE without candidates above the anchor item's own learned threshold.

    Args:
        sizes: items and dimension of the run.
        temperature: softmax scale.
        share: share of candidates that are false negatives; the authors' alpha.
        start: share of the run after which thresholds learn and candidates are left out. An
            item's first threshold is the quantile in its batch.
        rate: learning rate of a threshold.

    The authors' defaults are a rate of 0.05 and moments 0.9 and 0.98. Bias correction counts an
    item's own updates here, and epochs of the run there.
    """

    moments = (0.9, 0.98)

    def __init__(
        self,
        sizes: Sizes,
        *,
        temperature: float = 0.5,
        share: float = 0.1,
        start: float = 0.3,
        rate: float = 0.05,
    ) -> None:
        super().__init__()
        self.temperature = check_positive("temperature", temperature)
        self.share = share
        self.start = start
        self.rate = rate
        self.register_buffer("threshold", torch.ones(sizes.items))
        self.register_buffer("mean", torch.zeros(sizes.items))
        self.register_buffer("square", torch.zeros(sizes.items))
        self.register_buffer("updates", torch.zeros(sizes.items))

    def forward(self, step: Step) -> Tensor:
        """The loss of both views; thresholds learn first, as in the authors' code."""
        pairs = two_view_logits(step.view_1, step.view_2, self.temperature)
        kept = pairs.candidate
        if step.progress >= self.start:
            self._learn(pairs, step.items)
            threshold = self.threshold[step.items].repeat(2)
            kept = kept & (pairs.similarity.detach() <= threshold[:, None])
        return kept_candidates_loss(pairs, kept).mean()

    @torch.no_grad()
    def _learn(self, pairs: TwoViewLogits, items: Tensor) -> None:
        """One step of quantile regression for the batch's items, over both their views."""
        batch = len(items)
        similarity = pairs.similarity[pairs.candidate].view(2, batch, 2 * batch - 2)
        of_item = similarity.transpose(0, 1).flatten(1)  # both views of an item in one row
        new = self.updates[items] == 0
        quantile = torch.quantile(of_item, 1 - self.share, dim=1)
        threshold = torch.where(new, quantile, self.threshold[items])
        above = (of_item > threshold[:, None]).float().mean(dim=1)
        gradient = self.share - above
        first, second = self.moments
        mean = first * self.mean[items] + (1 - first) * gradient
        square = second * self.square[items] + (1 - second) * gradient.square()
        count = self.updates[items] + 1
        scaled = (mean / (1 - first**count)) / ((square / (1 - second**count)).sqrt() + 1e-8)
        moved = (threshold - self.rate * scaled).clamp(-1, 1)
        self.threshold[items] = torch.where(new, threshold, moved)
        self.mean[items] = torch.where(new, torch.zeros_like(mean), mean)
        self.square[items] = torch.where(new, torch.zeros_like(square), square)
        self.updates[items] = count


def kept_candidates_loss(pairs: TwoViewLogits, kept: Tensor) -> Tensor:
    """InfoNCE over some of the candidates, their sum scaled up to the size of all of them.

    Args:
        pairs: logits of both views.
        kept: True for candidates that stay.

    Returns:
        One loss per row; without any candidate it is 0.
    """
    positive = pairs.logits[pairs.positive]
    rest = pairs.logits.masked_fill(~kept, -torch.inf).logsumexp(dim=1)
    scale = pairs.candidate.sum(dim=1) / kept.sum(dim=1).clamp_min(1)
    return torch.logaddexp(positive, rest + scale.log()) - positive

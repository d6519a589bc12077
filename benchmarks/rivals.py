"""Other people's methods against false negatives, written from the papers and the authors' code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TwoViewLogits(NamedTuple):
    """Every row of both views against every row, first views before second ones."""

    similarity: Tensor  # cosines [2 batch, 2 batch]
    logits: Tensor  # the same divided by the temperature
    positive: Tensor  # where a column is the row's other view
    candidate: Tensor  # where a column is a view of another item


def two_view_logits(view_1: Tensor, view_2: Tensor, temperature: float) -> TwoViewLogits:
    """Compute cosines of all pairs of rows, and where positives and candidates are."""
    rows = F.normalize(torch.cat([view_1, view_2]), dim=1)
    similarity = rows @ rows.T
    item = torch.arange(len(view_1)).repeat(2)
    same_item = item[:, None] == item[None, :]
    itself = torch.eye(len(rows), dtype=torch.bool)
    return TwoViewLogits(similarity, similarity / temperature, same_item & ~itself, ~same_item)


class FNC(nn.Module):
    """Leave false negatives out of the denominator, or attract them as positives.

    A moving average of the network embeds the anchor's two views and further "support" views. The
    score of a candidate is its largest cosine to any of them; the best ``top_k`` that exceed a
    threshold are false negatives. The student does not see the support views, so that every method
    has the same two; in the authors' code it does. Their momentum of 0.999 suits their hundred
    thousand steps.

    Reference:
        Huynh et al., "Boosting Contrastive Self-Supervised Learning with False Negative
        Cancellation", WACV 2022; the authors' code is google-research/fnc.
    """

    momentum = 0.95
    supports = 2

    def __init__(
        self, temperature: float, *, attract: bool, top_k: int = 10, threshold: float = 0.7
    ) -> None:
        super().__init__()
        self.temperature, self.attract = temperature, attract
        self.top_k, self.threshold = top_k, threshold

    def forward(self, view_1: Tensor, view_2: Tensor, slow: Sequence[Tensor]) -> Tensor:
        """Compute the mean loss; ``slow`` embeds both views and the supports by the average."""
        pairs = two_view_logits(view_1, view_2, self.temperature)
        batch = len(view_1)
        views = [F.normalize(view, dim=1) for view in slow]
        # [batch, 2 batch]: the largest cosine of an item's slow views to both views of another
        score = torch.stack([view @ torch.cat(views[:2]).T for view in views]).amax(dim=0)
        found = best_candidates(
            score, pairs.candidate[:batch], top_k=self.top_k, threshold=self.threshold
        )
        return cancelled_loss(pairs, found.repeat(2, 1), attract=self.attract).mean()


def best_candidates(score: Tensor, candidate: Tensor, *, top_k: int, threshold: float) -> Tensor:
    """Return True for an anchor's ``top_k`` best candidates that exceed the threshold."""
    score = score.masked_fill(~candidate, -torch.inf)
    best = score.topk(min(top_k, score.shape[1]), dim=1).indices
    among_best = torch.zeros_like(candidate).scatter_(1, best, True)
    return among_best & (score > threshold)


def cancelled_loss(pairs: TwoViewLogits, false_negative: Tensor, *, attract: bool) -> Tensor:
    """Compute the mean over an anchor's positives of -log softmax, one loss per anchor.

    Attracted false negatives are positives and stay in the denominator; eliminated ones are
    neither. The denominator holds every positive, as in the authors' code.
    """
    counted = pairs.positive | (pairs.candidate if attract else pairs.candidate & ~false_negative)
    total = pairs.logits.masked_fill(~counted, -torch.inf).logsumexp(dim=1)
    pulled = pairs.positive | false_negative if attract else pairs.positive
    return total - (pairs.logits * pulled).sum(dim=1) / pulled.sum(dim=1)


class GloFND(nn.Module):
    """InfoNCE without candidates above the anchor item's own learned threshold.

    The threshold of an item is the quantile ``1 - share`` of its similarities, found by stochastic
    gradient (Adam). Candidates above it are left out of the denominator, which keeps its size.
    The authors' defaults are a rate of 0.05 and moments 0.9 and 0.98. Bias correction counts an
    item's own updates here, and epochs of the run there. Thresholds learn, and candidates are left
    out, after a share ``start`` of the run; an item's first threshold is the quantile in its batch.

    Reference:
        Balmaseda et al., "Discovering Global False Negatives On the Fly for Self-supervised
        Contrastive Learning", ICML 2025; the authors' code is vibalcam/GloFND.
    """

    moments = (0.9, 0.98)

    def __init__(
        self,
        temperature: float,
        items: int,
        *,
        share: float = 0.1,
        start: float = 0.3,
        rate: float = 0.05,
    ) -> None:
        super().__init__()
        self.temperature, self.share, self.start, self.rate = temperature, share, start, rate
        self.threshold = torch.ones(items)
        self.mean, self.square, self.updates = torch.zeros(3, items)

    def forward(self, view_1: Tensor, view_2: Tensor, items: Tensor, progress: float) -> Tensor:
        """Compute the mean loss of both views; thresholds learn first, as in the authors' code."""
        pairs = two_view_logits(view_1, view_2, self.temperature)
        kept = pairs.candidate
        if progress >= self.start:
            self._learn(pairs, items)
            threshold = self.threshold[items].repeat(2)
            kept = kept & (pairs.similarity.detach() <= threshold[:, None])
        return kept_candidates_loss(pairs, kept).mean()

    @torch.no_grad()
    def _learn(self, pairs: TwoViewLogits, items: Tensor) -> None:
        """Take one step of quantile regression for the batch's items, over both their views."""
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
        self.mean[items] = torch.where(new, 0, mean)
        self.square[items] = torch.where(new, 0, square)
        self.updates[items] = count


def kept_candidates_loss(pairs: TwoViewLogits, kept: Tensor) -> Tensor:
    """Compute InfoNCE over the candidates in ``kept``, with their sum scaled to the size of all.

    One loss per row; without any candidate it is 0.
    """
    positive = pairs.logits[pairs.positive]
    rest = pairs.logits.masked_fill(~kept, -torch.inf).logsumexp(dim=1)
    scale = pairs.candidate.sum(dim=1) / kept.sum(dim=1).clamp_min(1)
    return torch.logaddexp(positive, rest + scale.log()) - positive

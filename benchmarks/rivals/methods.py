"""Other people's methods, written from the papers and checked against the authors' code.

| class | method | source |
|---|---|---|
| ``FNC`` | false negatives found by a teacher, left out or attracted | Huynh, WACV 2022 |
| ``GloFND`` | a learned threshold per item, what is above left out | Balmaseda, ICML 2025 |
| ``NNCLR`` (lightly) | the nearest neighbour in a queue as positive | Dwibedi, ICCV 2021 |
| ``SwAV`` (lightly) | balanced assignments, swapped between views | Caron, NeurIPS 2020 |
| ``PlainLoss`` | every loss of the library, the oracles among them | |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayescl.checks import check_choice, check_positive

SUPPORT = 2
"""Further views for the teacher of FNC. The student does not see them, so that every method has the
same two views; in the authors' code it does."""


class Step(NamedTuple):
    """One step of training, as a method sees it."""

    view_1: Tensor  # embeddings of the first views, [batch, dim], not normalised
    view_2: Tensor
    items: Tensor  # place of each image in the data set
    labels: Tensor  # class of each image; for oracles alone
    progress: float  # share of the run that is done
    teacher: Callable[[int], Tensor] | None = None
    """Embeddings of the view of a number by a slow copy of the network, without gradient; views 1
    and 2 are those of the student. None for a method without a teacher."""


class Rival(nn.Module):
    """A method: a step in, a scalar out. Its parameters train with the network.

    It is made with the number of images and the length of an embedding, and its own options.
    """

    momentum: float | None = None
    """Of the teacher's moving average, in [0, 1); None for a method without one."""

    def forward(self, step: Step) -> Tensor:
        """The loss of one step."""
        raise NotImplementedError


class PlainLoss(Rival):
    """A loss on two views, with labels if it is undefined without."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, step: Step) -> Tensor:
        """The loss of both views."""
        needed = [name for name in ("groups", "labels") if getattr(self.loss, f"needs_{name}")]
        return self.loss(step.view_1, step.view_2, **dict.fromkeys(needed, step.labels))


class TwoViewLogits(NamedTuple):
    """Every row of both views against every row, first views before second ones."""

    similarity: Tensor  # cosines [2 batch, 2 batch]
    logits: Tensor  # the same divided by the temperature
    positive: Tensor  # where a column is the row's other view
    candidate: Tensor  # where a column is a view of another item


def two_view_logits(view_1: Tensor, view_2: Tensor, temperature: float) -> TwoViewLogits:
    """Cosines of all pairs of rows, and which of them mean what."""
    rows = F.normalize(torch.cat([view_1, view_2]).float(), dim=1)
    similarity = rows @ rows.T
    item = torch.arange(len(view_1), device=rows.device).repeat(2)
    same_item = item[:, None] == item[None, :]
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    return TwoViewLogits(similarity, similarity / temperature, same_item & ~itself, ~same_item)


class FNC(Rival):
    """Contrast with false negatives left out of the denominator, or taken for positives.

    A teacher, a moving average of the network, embeds the anchor's two views and further "support"
    views. A candidate scores its largest cosine to any of them; the best that exceed a threshold
    are taken for false negatives, ``top_k`` of an anchor at most. The authors' momentum of 0.999
    suits their hundred thousand steps.

    Reference:
        Huynh et al., "Boosting Contrastive Self-Supervised Learning with False Negative
        Cancellation", WACV 2022; the authors' code is google-research/fnc.
    """

    momentum = 0.95

    def __init__(
        self,
        items: int,
        dim: int,
        *,
        temperature: float = 0.5,
        mode: str = "attract",
        top_k: int = 10,
        threshold: float = 0.7,
    ) -> None:
        super().__init__()
        del items, dim
        self.temperature = check_positive("temperature", temperature)
        check_choice("mode", mode, ("eliminate", "attract"))
        self.attracts = mode == "attract"
        self.top_k = top_k
        self.threshold = threshold

    def forward(self, step: Step) -> Tensor:
        """The mean over both views of all items."""
        views = [F.normalize(step.teacher(view), dim=1) for view in range(1, 3 + SUPPORT)]
        pairs = two_view_logits(step.view_1, step.view_2, self.temperature)
        batch = len(step.items)
        # [batch, 2 batch]: the largest cosine of an item's teacher views to both views of another
        columns = torch.cat(views[:2])
        score = torch.stack([view @ columns.T for view in views]).amax(dim=0)
        false_negative = best_candidates(
            score, pairs.candidate[:batch], top_k=self.top_k, threshold=self.threshold
        )
        false_negative = false_negative.repeat(2, 1)
        return cancelled_loss(pairs, false_negative, attract=self.attracts).mean()


def best_candidates(score: Tensor, candidate: Tensor, *, top_k: int, threshold: float) -> Tensor:
    """True for an anchor's ``top_k`` best columns of other items that exceed the threshold."""
    score = score.masked_fill(~candidate, -torch.inf)
    best = score.topk(min(top_k, score.shape[1]), dim=1).indices
    among_best = torch.zeros_like(candidate).scatter_(1, best, True)
    return among_best & (score > threshold)


def cancelled_loss(pairs: TwoViewLogits, false_negative: Tensor, *, attract: bool) -> Tensor:
    """Mean over an anchor's positives of -log softmax, one loss per anchor.

    Attracted false negatives are positives and stay in the denominator; eliminated ones are
    neither. The denominator holds every positive, as in the authors' code.
    """
    counted = pairs.positive | (pairs.candidate if attract else pairs.candidate & ~false_negative)
    total = pairs.logits.masked_fill(~counted, -torch.inf).logsumexp(dim=1)
    pulled = pairs.positive | false_negative if attract else pairs.positive
    return total - (pairs.logits * pulled).sum(dim=1) / pulled.sum(dim=1)


class GloFND(Rival):
    """InfoNCE without candidates above the anchor item's own learned threshold.

    The threshold of an item is the quantile ``1 - share`` of its similarities, found by stochastic
    gradient (Adam), and what lies above it is left out of the denominator, which keeps its size.
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
        items: int,
        dim: int,
        *,
        temperature: float = 0.5,
        share: float = 0.1,
        start: float = 0.3,
        rate: float = 0.05,
    ) -> None:
        super().__init__()
        del dim
        self.temperature = check_positive("temperature", temperature)
        self.share = share
        self.start = start
        self.rate = rate
        self.register_buffer("threshold", torch.ones(items))
        for name in ("mean", "square", "updates"):
            self.register_buffer(name, torch.zeros(items))

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
        self.mean[items] = torch.where(new, 0, mean)
        self.square[items] = torch.where(new, 0, square)
        self.updates[items] = count


def kept_candidates_loss(pairs: TwoViewLogits, kept: Tensor) -> Tensor:
    """InfoNCE over the candidates in ``kept``, their sum scaled up to the size of all of them.

    One loss per row; without any candidate it is 0.
    """
    positive = pairs.logits[pairs.positive]
    rest = pairs.logits.masked_fill(~kept, -torch.inf).logsumexp(dim=1)
    scale = pairs.candidate.sum(dim=1) / kept.sum(dim=1).clamp_min(1)
    return torch.logaddexp(positive, rest + scale.log()) - positive


class NNCLR(Rival):
    """NNCLR: predict from one view the nearest neighbour of the other in a queue.

    Reference:
        Dwibedi et al., "With a Little Help from My Friends", ICCV 2021.
    """

    def __init__(
        self, items: int, dim: int, *, temperature: float = 0.1, queue: int = 1024
    ) -> None:
        from lightly.loss import NTXentLoss
        from lightly.models.modules import NNCLRPredictionHead, NNMemoryBankModule

        super().__init__()
        del items
        self.neighbour = NNMemoryBankModule(size=(queue, dim))
        self.predict = NNCLRPredictionHead(dim, 512, dim)
        self.loss = NTXentLoss(temperature=temperature)

    def forward(self, step: Step) -> Tensor:
        """The mean of both directions."""
        neighbour_1 = self.neighbour(step.view_1.detach(), update=False)
        neighbour_2 = self.neighbour(step.view_2.detach(), update=True)
        predicted_1, predicted_2 = self.predict(step.view_1), self.predict(step.view_2)
        return (self.loss(neighbour_1, predicted_2) + self.loss(neighbour_2, predicted_1)) / 2


class SwAV(Rival):
    """SwAV: one view predicts the other's balanced assignment to prototypes.

    There are two views and no smaller ones, as every method here has the same two. A small
    ``epsilon`` makes sharp assignments.

    Reference:
        Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster
        Assignments", NeurIPS 2020.
    """

    def __init__(
        self,
        items: int,
        dim: int,
        *,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        prototypes: int = 100,
    ) -> None:
        from lightly.loss import SwaVLoss
        from lightly.models.modules import SwaVPrototypes

        super().__init__()
        del items
        self.prototypes = SwaVPrototypes(dim, prototypes)
        self.loss = SwaVLoss(temperature=temperature, sinkhorn_epsilon=epsilon)

    def forward(self, step: Step) -> Tensor:
        """The mean of both directions."""
        self.prototypes.normalize()
        views = [F.normalize(view, dim=1) for view in (step.view_1, step.view_2)]
        return self.loss([self.prototypes(view) for view in views], []).squeeze()

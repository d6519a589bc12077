"""FNC, false negative cancellation: what a teacher finds similar is left out or attracted.

Reference:
    Huynh et al., "Boosting Contrastive Self-Supervised Learning with False Negative
    Cancellation", WACV 2022; the authors' code is google-research/fnc. A teacher, a moving
    average of the network, embeds the anchor's two views and further "support" views. A candidate
    scores its largest cosine to any of them; the ``top_k`` best that exceed ``threshold`` are
    taken for false negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bayescl.checks import check_choice, check_positive
from rivals.steps import Rival, Sizes, Step

MODES = ("eliminate", "attract")


class FNC(Rival):
    """Contrast with false negatives left out of the denominator, or taken for positives.

    Args:
        sizes: items and dimension of the run.
        temperature: softmax scale.
        mode: "eliminate" or "attract".
        top_k: false negatives of an anchor at most.
        threshold: least similarity of a false negative.
        support: further views for the teacher. They help to find false negatives and, where there
            is a memory, are positives; the student does not see them, so that every method has
            the same two views. In the authors' code the student does.
        memory: rows of teacher embeddings to score against, those of the batch included, as the
            authors do on large data; 0 to score against the student's own batch.
        momentum: of the teacher. The authors' 0.999 suits their hundred thousand steps.
    """

    def __init__(
        self,
        sizes: Sizes,
        *,
        temperature: float = 0.5,
        mode: str = "attract",
        top_k: int = 10,
        threshold: float = 0.7,
        support: int = 2,
        memory: int = 0,
        momentum: float = 0.95,
    ) -> None:
        super().__init__()
        self.temperature = check_positive("temperature", temperature)
        check_choice("mode", mode, MODES)
        self.mode = mode
        self.top_k = top_k
        self.threshold = threshold
        self.support = support
        self.momentum = momentum
        self.register_buffer("memory", torch.zeros(memory, sizes.dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def forward(self, step: Step) -> Tensor:
        """The mean over both views of all items."""
        views = range(1, 3 + self.support)
        found = torch.stack([F.normalize(step.teacher(view), dim=1) for view in views])
        anchors = F.normalize(torch.cat([step.view_1, step.view_2]), dim=1)
        batch = len(step.items)
        slow = found.flatten(0, 1)
        if len(self.memory):
            columns = compared = torch.cat([slow, self._recall(len(slow))])
            column_view = torch.arange(len(views)).repeat_interleave(batch)
        else:
            columns, compared = anchors, slow[: 2 * batch]
            column_view = torch.arange(2).repeat_interleave(batch)
        known = len(column_view)
        device = anchors.device
        item = torch.full((len(columns),), -1, device=device)
        item[:known] = torch.arange(batch, device=device).repeat(known // batch)
        view = torch.full((len(columns),), -1, device=device)
        view[:known] = column_view.to(device)

        same_item = torch.arange(batch, device=device)[:, None] == item[None, :]
        score = torch.einsum("vbd,cd->vbc", found, compared).amax(dim=0)
        false_negative = found_false_negatives(
            score, ~same_item, top_k=self.top_k, threshold=self.threshold
        )
        own_view = torch.arange(2, device=device).repeat_interleave(batch)[:, None] == view[None, :]
        same_item, false_negative = same_item.repeat(2, 1), false_negative.repeat(2, 1)
        loss = cancelled_loss(
            anchors @ columns.T / self.temperature,
            positive=same_item & ~own_view,
            candidate=~same_item,
            false_negative=false_negative,
            attract=self.mode == "attract",
        )
        if len(self.memory):
            self._remember(slow)
        return loss.mean()

    def _recall(self, batch: int) -> Tensor:
        """Rows of earlier batches, as many as fit beside this one's."""
        rows = min(int(self.filled), len(self.memory) - batch)
        return self.memory[: max(0, rows)].clone()

    @torch.no_grad()
    def _remember(self, rows: Tensor) -> None:
        """Put rows first; the last ones fall out."""
        self.memory.copy_(torch.cat([rows, self.memory])[: len(self.memory)])
        self.filled.add_(len(rows)).clamp_(max=len(self.memory))


def found_false_negatives(
    score: Tensor, candidate: Tensor, *, top_k: int, threshold: float
) -> Tensor:
    """True for an anchor's ``top_k`` best candidates, as far as they exceed the threshold.

    Args:
        score: ``[anchors, columns]``.
        candidate: True where a column is of another item.
        top_k: at most so many of a row.
        threshold: all of a row must score more than this.
    """
    score = score.masked_fill(~candidate, -torch.inf)
    best = score.topk(min(top_k, score.shape[1]), dim=1).indices
    among_best = torch.zeros_like(candidate).scatter_(1, best, True)
    return among_best & (score > threshold)


def cancelled_loss(
    logits: Tensor,
    *,
    positive: Tensor,
    candidate: Tensor,
    false_negative: Tensor,
    attract: bool,
) -> Tensor:
    """Mean over an anchor's positives of -log softmax.

    Attracted false negatives are positives and stay in the denominator; eliminated ones are
    neither. The denominator holds every positive, as in the authors' code.

    Args:
        logits: ``[anchors, columns]``.
        positive: True where a column is another view of the anchor's item.
        candidate: True where a column is of another item.
        false_negative: True where a candidate is taken for one.
        attract: whether false negatives are attracted.

    Returns:
        One loss per anchor.
    """
    counted = positive | (candidate if attract else candidate & ~false_negative)
    total = logits.masked_fill(~counted, -torch.inf).logsumexp(dim=1)
    pulled = positive | false_negative if attract else positive
    return total - (logits * pulled).sum(dim=1) / pulled.sum(dim=1)

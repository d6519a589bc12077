"""BPR, the loss that only recommenders have."""

from __future__ import annotations

from typing import Any

import torch
from bayescl.losses.gathering import Gathering
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.batch import sampled as sampled_batch
from bayescl.checks import check_positive
from bayescl.functional.similarity import candidate_logits, pair_logits, unit_vectors


class BPRLoss(nn.Module):
    r"""Logistic loss of the positive against each candidate.

    .. math::
        \frac{1}{N} \sum_i -\log \sigma\bigl((s^+ - s_i) / t\bigr)

    The usual BPR has one candidate per pair, inner products and temperature 1. L2 regularisation
    is the optimizer's weight decay.

    Args:
        temperature: divisor of score differences, positive.
        normalize: whether embeddings are scaled to length 1 first, so that scores are cosines.
        gather: whether the processes of the default process group share a batch. Their losses then
            average to the mean over all pairs, even with unequal numbers of pairs. Each process
            scores its own candidates.

    Raises:
        ValueError: if ``temperature`` is not positive.

    Example:
        >>> loss = BPRLoss()
        >>> users, items = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
        >>> loss.sampled(users, items, torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]))
        tensor(0.2201)

    Reference:
        Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009.
    """

    def __init__(
        self, *, temperature: float = 1.0, normalize: bool = False, gather: bool = False
    ) -> None:
        super().__init__()
        self.temperature = check_positive("temperature", temperature)
        self.normalize = normalize
        self.gather = gather

    def sampled(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "pairs dim"] | Int[Tensor, " pairs"],
        candidates: Float[Tensor, "*own candidates dim"],
        *,
        anchor_of: Int[Tensor, " pairs"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
    ) -> Float[Tensor, ""]:
        """Compute the mean over pairs of the mean over each pair's candidates.

        The arguments are those of :meth:`bayescl.losses.ContrastiveLoss.sampled`. A pair without
        candidates that count has loss 0. If shapes do not match, that is a ``ValueError``; with
        ``gather``, on all processes if on any.
        """
        gathering = Gathering.of("sampled", self.gather)
        given: dict[str, Any] = {"anchor_of": anchor_of, "valid": valid}
        with gathering.synchronized_errors():  # of shapes
            batch = sampled_batch(anchors, positives, candidates, **given, of_candidates={})
        positives, valid = batch.positives.embeddings, batch.mask()
        share = gathering.mean_share(len(positives))
        if self.normalize:
            anchors, positives, candidates = map(unit_vectors, (anchors, positives, candidates))
        negative = candidate_logits(anchors, candidates, self.temperature)
        if anchor_of is not None:
            anchors, negative = F.embedding(anchor_of, anchors), F.embedding(anchor_of, negative)
            valid = None if valid is None else valid[anchor_of]
        positive = pair_logits(anchors, positives, self.temperature)
        terms = F.softplus(negative - positive[:, None])
        if valid is None:
            mean = terms.mean()
        else:
            counts = valid.sum(dim=1).clamp(min=1)
            mean = (torch.where(valid, terms, 0.0).sum(dim=1) / counts).mean()
        return mean if share == 1 else mean * share

"""Losses for recommenders only: BPR, and the debiased loss with several positives."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_positive, check_shape
from bayescl.functional.debiased import subtract_positives
from bayescl.functional.log_space import contrast, log_count, masked_logsumexp
from bayescl.functional.similarity import candidate_logits, pair_logits, unit_vectors
from bayescl.losses import DebiasedContrastiveLoss
from bayescl.losses.gathering import Gathering
from bayescl.losses.layouts import drawn


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
        positives: Float[Tensor, "batch dim"],
        candidates: Float[Tensor, "*own candidates dim"],
        *,
        valid: Bool[Tensor, "batch candidates"] | None = None,
    ) -> Float[Tensor, ""]:
        """Compute the mean over pairs of the mean over each pair's candidates.

        Args:
            anchors: embeddings of users.
            positives: embeddings of each user's item, in the same order.
            candidates: ``[batch, candidates, dim]`` if each pair has its own, or
                ``[candidates, dim]`` if all share them.
            valid: True where a candidate counts. A pair without candidates has loss 0.

        Returns:
            A scalar.

        Raises:
            ValueError: if shapes do not match; with ``gather``, on all processes if on any.
            RuntimeError: with ``gather``, if there is no process group.
        """
        gathering = Gathering.of("sampled", self.gather)
        with gathering.refusals():
            drawn(anchors, positives, candidates, valid=valid)  # checks the shapes
        share = gathering.mean_share(len(anchors))
        if self.normalize:
            anchors, positives, candidates = map(unit_vectors, (anchors, positives, candidates))
        negative = candidate_logits(anchors, candidates, self.temperature)
        positive = pair_logits(anchors, positives, self.temperature)
        terms = F.softplus(negative - positive[:, None])
        if valid is None:
            mean = terms.mean()
        else:
            counts = valid.sum(dim=1).clamp(min=1)
            mean = (torch.where(valid, terms, 0.0).sum(dim=1) / counts).mean()
        return mean if share == 1 else mean * share


class ExtraPositivesDebiasedLoss(DebiasedContrastiveLoss):
    r"""The debiased loss, with its correction averaged over several positives of each anchor.

    The contribution of positives to the candidates' sum is estimated from M positives, the pair's
    own and the extra ones, instead of one. An image has only one other view, but a user has many
    items.

    .. math::
        G = \max\Bigl\{\frac{1}{\tau^-} \Bigl(\sum_i e^{s_i}
            - N \tau^+ \frac{1}{M} \sum_{j \le M} e^{s^+_j}\Bigr),\; N e^{s_{\min}}\Bigr\}

    Without extra positives it equals :class:`~bayescl.losses.DebiasedContrastiveLoss`, with the
    same arguments. With them, it keeps the whole matrix of logits in memory and does not gather
    candidates.

    Example:
        >>> loss = ExtraPositivesDebiasedLoss(tau_plus=0.1, temperature=0.5)
        >>> users, items = torch.eye(2), torch.eye(2)
        >>> extra = torch.tensor([[[0.6, 0.8]], [[0.0, 1.0]]])
        >>> loss.sampled(users, items, torch.eye(2), extra_positives=extra)
        tensor(0.7274)

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020, Eqs. 7 and 8 with M > 1.
    """

    def sampled(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        candidates: Float[Tensor, "*own candidates dim"],
        *,
        extra_positives: Float[Tensor, "batch extra dim"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
        gather_candidates: bool = True,
        **others: Any,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of pairs with drawn candidates and extra positives.

        Args:
            anchors: embeddings of users.
            positives: embeddings of each user's item, in the same order.
            candidates: each pair's own candidates, or those shared by all pairs.
            extra_positives: embeddings of further items of each pair's user. Differentiated.
            valid: True where a candidate counts for a pair.
            gather_candidates: as for other losses; must be False with ``gather`` and extra
                positives.
            **others: further arguments of :meth:`~bayescl.losses.ContrastiveLoss.sampled`, if there
                are no extra positives.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair.

        Raises:
            ValueError: if shapes do not match, or extra positives are combined with groups or
                with candidates of other processes.
        """
        if extra_positives is None:
            others |= {"valid": valid, "gather_candidates": gather_candidates}
            return super().sampled(anchors, positives, candidates, **others)
        if self.gather and gather_candidates:
            raise ValueError("gather_candidates must be False with extra_positives")
        if any(value is not None for value in others.values()):
            raise ValueError("extra_positives cannot be combined with groups, labels or log_q")
        gathering = Gathering.of("sampled with extra positives", self.gather)
        with gathering.refusals():
            drawn(anchors, positives, candidates, valid=valid)  # checks the shapes
            batch, dim = anchors.shape
            check_shape("extra_positives", extra_positives, (batch, "extra", dim))
            several = extra_positives.shape[1]
            anchors, positives, candidates, flat = self.prepared(
                anchors=anchors,
                positives=positives,
                candidates=candidates,
                extra_positives=extra_positives.flatten(0, 1),
            )
        share = gathering.mean_share(batch)
        temperature = self.current_temperature()
        positive = pair_logits(anchors, positives, temperature)
        unlabeled = candidate_logits(anchors, candidates, temperature)
        extra = candidate_logits(anchors, flat.view(batch, several, dim), temperature)
        known = torch.cat([positive[:, None], extra], dim=1)
        log_negative = subtract_positives(
            masked_logsumexp(unlabeled, valid),
            known.logsumexp(dim=1) - math.log(several + 1),
            log_count(unlabeled, valid),
            self.tau_plus,
            self.minimum_similarity / temperature,
        )
        return self.reduced(contrast(positive, log_negative), share)

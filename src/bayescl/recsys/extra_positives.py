"""The debiased loss with several positives behind its correction."""

from __future__ import annotations

import math
from typing import Any

import torch

from bayescl._axes import Bool, Float, Tensor
from bayescl._checks import check_mask, check_shape
from bayescl.functional.debiased import subtract_positives
from bayescl.functional.log_space import contrast, log_count, masked_logsumexp
from bayescl.functional.similarity import candidate_logits, pair_logits
from bayescl.losses import DebiasedContrastiveLoss


class ExtraPositivesDebiasedLoss(DebiasedContrastiveLoss):
    r"""The debiased loss, its correction taken over several known positives of each anchor.

    What the candidates' sum owes to positives among them is estimated from M positives in place of
    one: the pair's own and the extra ones. An image has one other view; a user has many items.

    .. math::
        G = \max\Bigl\{\frac{1}{\tau^-} \Bigl(\sum_i e^{s_i}
            - N \tau^+ \frac{1}{M} \sum_{j \le M} e^{s^+_j}\Bigr),\; N e^{s_{\min}}\Bigr\}

    Without extra positives it is :class:`~bayescl.losses.DebiasedContrastiveLoss`, argument for
    argument. With them the whole matrix of logits is held, on one process.

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
        **others: Any,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of pairs with candidates, and extra positives, drawn for them.

        Args:
            anchors: embeddings of users.
            positives: embeddings of each user's item, row by row.
            candidates: each pair's own, or the same for all.
            extra_positives: further items of each pair's user. Differentiated.
            valid: True where a candidate counts for a pair.
            **others: further arguments of :meth:`~bayescl.losses.ContrastiveLoss.sampled`, where
                there are no extra positives.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair.

        Raises:
            ValueError: if shapes do not match, or groups or ``gather`` meet extra positives.
        """
        if extra_positives is None:
            return super().sampled(anchors, positives, candidates, valid=valid, **others)
        if self.gather or any(value is not None for value in others.values()):
            raise ValueError("extra_positives go together with neither gather nor groups")
        batch, dim = anchors.shape
        check_shape("extra_positives", extra_positives, (batch, "extra", dim))
        check_shape("positives", positives, (batch, dim))
        own = () if candidates.ndim == 2 else (batch,)
        check_shape("candidates", candidates, (*own, "candidates", dim))
        several = extra_positives.shape[1]
        anchors, positives, candidates, flat = self.prepared(
            anchors=anchors,
            positives=positives,
            candidates=candidates,
            extra_positives=extra_positives.flatten(0, 1),
        )
        temperature = self.current_temperature()
        positive = pair_logits(anchors, positives, temperature)
        unlabeled = candidate_logits(anchors, candidates, temperature)
        extra = candidate_logits(anchors, flat.view(batch, several, dim), temperature)
        if valid is not None:
            check_mask("valid", valid, unlabeled.shape)
        every = torch.cat([positive[:, None], extra], dim=1)
        log_negative = subtract_positives(
            masked_logsumexp(unlabeled, valid),
            every.logsumexp(dim=1) - math.log(several + 1),
            log_count(unlabeled, valid),
            self.tau_plus,
            self.minimum_similarity / temperature,
        )
        return self.reduced(contrast(positive, log_negative))

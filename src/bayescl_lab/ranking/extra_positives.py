"""The debiased loss with a correction from several positives."""

from __future__ import annotations

import math
from typing import Any

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_mask, check_shape
from bayescl.functional.debiased import subtract_positives
from bayescl.functional.log_space import contrast, log_count, masked_logsumexp
from bayescl.functional.similarity import candidate_logits, pair_logits
from bayescl.losses import DebiasedContrastiveLoss
from bayescl.losses.gathering import Gathering


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
            return super().sampled(
                anchors,
                positives,
                candidates,
                valid=valid,
                gather_candidates=gather_candidates,
                **others,
            )
        if self.gather and gather_candidates:
            raise ValueError("gather_candidates must be False with extra_positives")
        if any(value is not None for value in others.values()):
            raise ValueError("extra_positives cannot be combined with groups, labels or log_q")
        gathering = Gathering.of("sampled with extra positives", self.gather)
        with gathering.refusals():
            batch, dim = anchors.shape
            check_shape("extra_positives", extra_positives, (batch, "extra", dim))
            check_shape("positives", positives, (batch, dim))
            own = () if candidates.ndim == 2 else (batch,)
            check_shape("candidates", candidates, (*own, "candidates", dim))
            if valid is not None:
                check_mask("valid", valid, (batch, candidates.shape[-2]))
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
        every = torch.cat([positive[:, None], extra], dim=1)
        log_negative = subtract_positives(
            masked_logsumexp(unlabeled, valid),
            every.logsumexp(dim=1) - math.log(several + 1),
            log_count(unlabeled, valid),
            self.tau_plus,
            self.minimum_similarity / temperature,
        )
        return self.reduced(contrast(positive, log_negative), share)

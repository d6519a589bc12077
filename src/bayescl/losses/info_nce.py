"""InfoNCE: every candidate counts as a negative."""

from __future__ import annotations

from dataclasses import dataclass

from bayescl._engine import Engine
from bayescl._ops.objective import LogSumObjective, Objective
from bayescl._types import CandidateMask, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.contrastive_loss import ContrastiveLoss, Reduction
from bayescl.temperature import LearnableTemperature


def info_nce_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""Compute InfoNCE, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + \sum_i e^{s_i}}

    This is the cross-entropy of choosing the positive among itself and the candidates. Candidates
    of the anchor's own class (false negatives) repel it like all others.

    Args:
        positive: Logit of each anchor's positive. Differentiated.
        unlabeled: Logits of each anchor's candidates. Differentiated.
        valid: True where a candidate counts. A row without candidates has loss 0. If only true
            negatives count, this is the oracle loss. Default: all count.

    Returns:
        Non-negative losses.

    Example:
        >>> info_nce_loss(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
        tensor([0.4076])

    Reference:
        van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018.
    """
    return InfoNCE()(positive, unlabeled, valid=valid)


@dataclass(frozen=True)
class InfoNCE(LogSumObjective):
    r"""Objective of InfoNCE.

    With the sum :math:`S = \sum_i e^{s_i}` over an anchor's candidates, the numerator is
    :math:`e^{s^+}` and the denominator :math:`e^{s^+} + S`. The default
    :meth:`LogSumObjective.from_log_sums` computes the loss from them.
    """

    powers = (1.0,)


_OBJECTIVE = InfoNCE()


class InfoNCELoss(ContrastiveLoss):
    """InfoNCE (NT-Xent): all candidates are repelled, including false negatives.

    Other losses reduce to this baseline: the debiased loss at ``tau_plus = 0``, the Bayesian
    loss at ``alpha = beta = 0.5``.

    Args:
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Example:
        >>> loss = InfoNCELoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.4327)

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning", ICML 2020, Eq. 1.

    See Also:
        :func:`bayescl.functional.info_nce_loss`: the same loss on logits.
    """

    def __init__(
        self,
        *,
        temperature: float | LearnableTemperature = 0.5,
        positive_share: float | None = 0.5,
        teacher_temperature: float | None = None,
        normalize: bool = True,
        reduction: Reduction = "mean",
        engine: Engine = "auto",
        chunk_size: int | None = None,
        gather: bool = False,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            temperature=temperature, positive_share=positive_share,
            teacher_temperature=teacher_temperature, normalize=normalize, reduction=reduction,
            engine=engine, chunk_size=chunk_size, gather=gather, check_finite=check_finite,
        )  # fmt: skip

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return _OBJECTIVE

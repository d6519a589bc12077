"""The sigmoid loss: whether two rows are a pair is asked of every pair by itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import Bool, CandidateMask, Float, PerAnchor, PositiveLogits, UnlabeledLogits
from bayescl.checks import check_interval, check_shape
from bayescl.functional.bayesian import Bayesian
from bayescl.functional.excluded import Excluded
from bayescl.functional.log_space import softplus
from bayescl.functional.objective import LogSumObjective
from bayescl.functional.ranks import Ranks


def check_relief(relief: float) -> float:
    """Refuse a relief that is not a share."""
    return check_interval("relief", relief, 0.0, 1.0)


@dataclass(frozen=True)
class Sigmoid:
    """:func:`sigmoid_loss` as engines receive it, on logits to which the bias has been added.

    Attributes:
        weighting: an objective whose weights by rank the candidates get; None for equal weights.
        relief: share of its weight that a candidate surely of the anchor's class loses, in [0, 1].
        counts_positive: whether the positive's own term counts; False where candidates come in
            several parts, and this is not the first.
    """

    weighting: LogSumObjective | None = None
    relief: float = 0.0
    counts_positive: bool = True

    @property
    def reads_same_class(self) -> bool:
        """Whether the objective uses the posterior that pairs are of one class."""
        return self.relief > 0

    @property
    def adds_up(self) -> bool:
        """Whether candidates may come in parts, since none depends on the others."""
        return self.weighting is None

    def weights(
        self,
        unlabeled: UnlabeledLogits,
        excluded: Excluded,
        *,
        valid: CandidateMask | None,
        same_class: Float[torch.Tensor, "anchors candidates"] | None = None,
    ) -> UnlabeledLogits | None:
        """Return every candidate's weight, a constant for the gradient; None if all weigh 1."""
        weights = None
        if self.weighting is not None:
            weights = self.weighting.weights(unlabeled, valid=valid)
            excluded.fill_(weights, 0.0)
            total = weights.sum(dim=1)
            count = excluded.counts(weights.shape[1], weights.device)
            weights = weights * (count / torch.where(total > 0, total, 1))[:, None]
        if self.reads_same_class and same_class is not None:
            kept = 1 - self.relief * same_class.detach()
            weights = kept if weights is None else weights * kept
        return weights

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
        same_class: Float[torch.Tensor, "anchors candidates"] | None = None,
        certain: Bool[torch.Tensor, "anchors candidates"] | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor from the whole matrix of logits."""
        del certain  # the posterior is 0 or 1 there
        excluded = Excluded.without(valid)
        weights = self.weights(unlabeled, excluded, valid=valid, same_class=same_class)
        if valid is not None:
            unlabeled = torch.where(valid, unlabeled, -torch.inf)
        terms = softplus(unlabeled)
        losses = (terms if weights is None else terms * weights).sum(dim=1)
        return losses + softplus(-positive) if self.counts_positive else losses


def sigmoid_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    bias: float | Float[torch.Tensor, ""] = 0.0,
    alpha: float = 0.5,
    beta: float = 0.5,
    tau_plus: float = 0.1,
    same_class: Float[torch.Tensor, "anchors candidates"] | None = None,
    relief: float = 0.5,
    valid: CandidateMask | None = None,
    ranks: Ranks = "mid",
    bins: int = 256,
) -> PerAnchor:
    r"""The sigmoid loss with weighted negatives, one value per anchor.

    .. math::
        \log\big(1 + e^{-s^+ - b}\big) + \sum_j w_j\,(1 - \rho P_j) \log\big(1 + e^{s_j + b}\big)

    with the importance weights :math:`w_j` of :func:`~bayescl.functional.logit_weights`, scaled to
    mean 1 over the anchor's candidates, and the probability :math:`P_j` that candidate :math:`j`
    shares the anchor's class. By default all weigh 1: the loss of SigLIP, summed over the pairs of
    an anchor.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        bias: :math:`b`, added to every logit. Differentiated if it is a tensor.
        alpha: as in :func:`~bayescl.functional.bayesian_loss`; weights are 1 at
            ``alpha = beta = 0.5``.
        beta: likewise.
        tau_plus: likewise.
        same_class: :math:`P`, in [0, 1]; not differentiated. Default: not known, as if 0.
        relief: :math:`\rho`, in [0, 1]: share of its weight that a sure member of the class loses.
        valid: True where a candidate counts. A row without candidates has its positive's term.
        ranks: ``"mid"``, ``"upper"`` or ``"histogram"``; see
            :func:`~bayescl.functional.empirical_cdf`.
        bins: bins of the histogram: 64, 128, 256, 512 or 1024.

    Returns:
        Non-negative losses. They grow with the number of candidates.

    Raises:
        ValueError: if shapes do not match or a parameter is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> sigmoid_loss(positive, unlabeled)
        tensor([2.1333])
        >>> sigmoid_loss(positive, unlabeled, same_class=torch.tensor([[0.0, 1.0]]))
        tensor([1.4767])

    Reference:
        Zhai et al., "Sigmoid Loss for Language Image Pre-Training", ICCV 2023.
    """
    if same_class is not None:
        check_shape("same_class", same_class, unlabeled.shape)
    weighting = None if alpha == beta == 0.5 else Bayesian(alpha, beta, tau_plus, ranks, bins)
    objective = Sigmoid(weighting, check_relief(relief))
    return objective(positive + bias, unlabeled + bias, valid=valid, same_class=same_class)

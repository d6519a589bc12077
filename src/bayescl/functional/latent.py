"""The latent-class objective: weigh and attract candidates by a posterior of the same class."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl._axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl._checks import check_interval, check_non_negative, check_shape
from bayescl.functional.objective import LogSumObjective, PairTerms

THRESHOLD = 0.5
"""Candidates that are more likely of the anchor's class than not attract it."""


@dataclass(frozen=True)
class Latent(LogSumObjective):
    """:func:`latent_loss` as engines receive it; InfoNCE where there is no posterior."""

    attraction: float = 1.0
    threshold: float = THRESHOLD
    reads_same_class = True

    def pair_parts(self, same_class: Float[Tensor, "anchors candidates"]) -> PairTerms:
        """Return the weights of true negatives and the pulls of likely positives."""
        if self.attraction == 0:
            return PairTerms(1 - same_class, None)
        pulls = torch.nn.functional.threshold(same_class, self.threshold, 0.0)
        return PairTerms(1 - same_class, pulls if self.attraction == 1 else self.attraction * pulls)


def latent_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    same_class: Float[Tensor, "anchors candidates"],
    *,
    attraction: float = 1.0,
    threshold: float = THRESHOLD,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The contrastive loss with candidates weighed and attracted by a posterior, per anchor.

    With the probability :math:`P_j` that candidate :math:`j` shares the anchor's class,

    .. math::
        \log\Big(e^{s^+} + \sum_j w_j e^{s_j}\Big)
        - \frac{s^+ + \lambda \sum_j A_j s_j}{1 + \lambda \sum_j A_j}, \qquad
        w_j = \frac{1 - P_j}{\mathrm{mean}_k (1 - P_k)}, \qquad
        A_j = P_j\,[P_j > \text{threshold}].

    The weights take false negatives out of the sum, as the posterior of the Bayesian loss does
    at ``beta`` = 0.5. Attraction makes likely members of the class positives beside the anchor's
    own: a cross-entropy with soft targets. Where all :math:`P_j` are 0 it is InfoNCE, exactly.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated. They must be bounded, as
            cosines divided by a temperature are: nothing else limits the attraction.
        same_class: :math:`P`, in [0, 1]; not differentiated. What is no candidate by ``valid``
            does not matter, as long as it is a number.
        attraction: :math:`\lambda`, at least 0; 0 weighs candidates without attraction.
        threshold: candidates attract above it, in [0, 1]. Hundreds of small posteriors of true
            negatives would add up to more than the few large ones of false negatives.
        valid: True where a candidate counts. A row with none has loss 0.

    Returns:
        One loss per anchor. It may be negative where candidates that attract score higher than
        the positive.

    Raises:
        ValueError: if shapes do not fit together or a number leaves its interval.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> latent_loss(positive, unlabeled, torch.zeros(1, 2))
        tensor([0.4076])
        >>> latent_loss(positive, unlabeled, torch.tensor([[0.0, 1.0]]))
        tensor([0.7395])

    See Also:
        :func:`~bayescl.functional.info_nce_loss`; :func:`~bayescl.functional.same_class`, where
        the posterior comes from. With ones and zeros from labels it is an oracle that also
        attracts; with ``attraction=0`` the one that leaves out, but for the scale of the weights
        (see :func:`~bayescl.functional.oracle_loss`).
    """
    check_non_negative("attraction", attraction)
    check_interval("threshold", threshold, 0.0, 1.0)
    check_shape("same_class", same_class, unlabeled.shape)
    objective = Latent(attraction, threshold)
    return objective(positive, unlabeled, valid=valid, same_class=same_class)


def candidate_weights(
    same_class: Float[Tensor, "anchors candidates"], *, valid: CandidateMask | None = None
) -> Float[Tensor, "anchors candidates"]:
    r"""Weights :math:`1 - P_j`, scaled to mean 1 over each anchor's candidates.

    Args:
        same_class: posterior probability of the anchor's class, in [0, 1].
        valid: True where a candidate counts.

    Returns:
        Non-negative weights; 0 for what is no candidate, and throughout a row whose candidates
        are all of the anchor's class.

    Raises:
        ValueError: if shapes do not fit together.

    Example:
        >>> candidate_weights(torch.tensor([[0.0, 0.5, 1.0]]))
        tensor([[2., 1., 0.]])
    """
    negative = 1 - same_class
    if valid is None:
        count = negative.new_full((1, 1), negative.shape[1])
    else:
        check_shape("valid", valid, same_class.shape)
        negative = torch.where(valid, negative, 0)
        count = valid.sum(dim=1, keepdim=True).to(negative.dtype)
    total = negative.sum(dim=1, keepdim=True)
    return negative * (count / torch.where(total > 0, total, 1))


def attracting(
    same_class: Float[Tensor, "anchors candidates"],
    *,
    threshold: float = THRESHOLD,
    valid: CandidateMask | None = None,
) -> Float[Tensor, "anchors candidates"]:
    """The posterior where it exceeds the threshold and the candidate counts, else 0.

    Example:
        >>> attracting(torch.tensor([[0.2, 0.9]]))
        tensor([[0.0000, 0.9000]])
    """
    sure = same_class > threshold
    return torch.where(sure if valid is None else sure & valid, same_class, 0)

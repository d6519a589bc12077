"""The latent-class objective: candidates are weighted and attracted by their posterior."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.checks import check_interval, check_non_negative, check_shape
from bayescl.functional.objective import LogSumObjective, PairTerms

THRESHOLD = 0.5
"""Candidates attract if they are more likely than not to be of the anchor's class."""


@dataclass(frozen=True)
class Latent(LogSumObjective):
    """:func:`latent_loss` as engines receive it; InfoNCE if there is no posterior."""

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
    r"""The contrastive loss with candidates weighted and attracted by a posterior, per anchor.

    With the probability :math:`P_j` that candidate :math:`j` shares the anchor's class,

    .. math::
        \log\Big(e^{s^+} + \sum_j w_j e^{s_j}\Big)
        - \frac{s^+ + \lambda \sum_j A_j s_j}{1 + \lambda \sum_j A_j}, \qquad
        w_j = \frac{1 - P_j}{\mathrm{mean}_k (1 - P_k)}, \qquad
        A_j = P_j\,[P_j > \text{threshold}].

    The weights take false negatives out of the sum, as the posterior of the Bayesian loss does
    at ``beta`` = 0.5. Attraction makes likely members of the class further positives: a
    cross-entropy with soft targets. If all :math:`P_j` are 0, this is exactly InfoNCE.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated. They must be bounded, as
            cosines divided by a temperature are: nothing else limits the attraction.
        same_class: :math:`P`, in [0, 1]; not differentiated. Entries that ``valid`` excludes may
            hold any number.
        attraction: :math:`\lambda`, at least 0; at 0 candidates are weighted but do not attract.
        threshold: posterior above which a candidate attracts, in [0, 1]. Without it, hundreds of
            small posteriors of true negatives would outweigh the few large ones of false negatives.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        One loss per anchor. It may be negative if attracting candidates score higher than the
        positive.

    Raises:
        ValueError: if shapes do not match or a number is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> latent_loss(positive, unlabeled, torch.zeros(1, 2))
        tensor([0.4076])
        >>> latent_loss(positive, unlabeled, torch.tensor([[0.0, 1.0]]))
        tensor([0.7395])

    See Also:
        :func:`~bayescl.functional.info_nce_loss`; :func:`~bayescl.functional.same_class`, which
        gives the posterior. With a posterior of ones and zeros from labels, this is an oracle that
        also attracts; with ``attraction=0`` it is :func:`~bayescl.functional.oracle_loss` up to the
        scale of the weights.
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
        Non-negative weights; 0 where ``valid`` is False, and in rows whose candidates are all of
        the anchor's class.

    Raises:
        ValueError: if shapes do not match.

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

"""The latent-class loss: a posterior of pairs says which candidates repel and which attract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bayescl.axes import (
    Bool,
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.checks import check_choice, check_interval, check_mask, check_positive, check_shape
from bayescl.functional.excluded import Excluded
from bayescl.functional.objective import LogSumObjective
from bayescl.functional.pairs import PairWeights, Scaled, above, mean_1

Aim = Literal["pairs", "both", "classes"]
"""What training is for: finding the exact pair, its class, or both."""

AIMS: tuple[Aim, ...] = ("pairs", "both", "classes")

THRESHOLD = 0.5
"""Without it, many small posteriors of true negatives would outweigh the few large ones."""

MOST_ATTRACTION = 1e6
"""Beyond it float32 cannot add the positive's own share of the target."""


def check_attraction(attraction: float) -> float:
    """Refuse an attraction that is negative or too large to add to 1."""
    return check_interval("attraction", attraction, 0.0, MOST_ATTRACTION)


@dataclass(frozen=True)
class Latent(LogSumObjective):
    """:func:`latent_loss` as engines receive it; InfoNCE if there is no posterior."""

    attraction: float = 1.0
    threshold: float = THRESHOLD
    aim: Aim = "classes"
    sharpness: float = 1.0
    members_repel: bool = False
    reads_same_class = True

    def pair_weights(
        self,
        same_class: Float[Tensor, "anchors candidates"],
        excluded: Excluded,
        is_labeled: Bool[Tensor, "anchors candidates"] | None = None,
        trust: float | Float[Tensor, ""] = 1.0,
    ) -> PairWeights:
        """Return what repels, and what attracts in one way or the other."""
        others = 1 - same_class  # [anchors, candidates], as all that follow
        excluded.fill_(others, 0.0)
        attracted = above(same_class, self.threshold)  # P [P > threshold]
        excluded.fill_(attracted, 0.0)
        count = excluded.counts(others.shape[1], others.device).to(others.dtype)
        if self.aim == "classes":
            repel = None if self.members_repel else mean_1(others, count)
            return PairWeights(repel, self._target(attracted) if self.attraction else None)
        # All candidates repel. Members attract with at most ``attraction`` together.
        repel = attract = None
        if is_labeled is not None and self.aim == "both":  # no need for caution with labels
            known = is_labeled.to(others.dtype)
            attract = self._target(attracted * known)
            attracted -= attract.matrix
            weights = (1 - known).addcmul_(known, others)
            excluded.fill_(weights, 0.0)
            repel = mean_1(weights, count)
        strength = self.attraction / self.sharpness
        rank = Scaled(attracted, strength / attracted.sum(dim=1).clamp_min(1))
        return PairWeights(repel, attract, rank, mean_1(others, count), self.sharpness)

    def _target(self, pulls: Float[Tensor, "anchors candidates"]) -> Scaled:
        """Shares of the target, of which the positive has the rest."""
        return Scaled(pulls, self.attraction / (1 + self.attraction * pulls.sum(dim=1)))


def latent_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    same_class: Float[Tensor, "anchors candidates"],
    *,
    attraction: float = 1.0,
    threshold: float = THRESHOLD,
    aim: Aim = "classes",
    sharpness: float = 1.0,
    is_labeled: Bool[Tensor, "anchors candidates"] | None = None,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The contrastive loss with candidates weighted and attracted by a posterior, per anchor.

    With the probability :math:`P_j` that candidate :math:`j` shares the anchor's class and
    :math:`A_j = P_j\,[P_j > \text{threshold}]`,

    .. math::
        \log\Big(e^{s^+} + \sum_j w_j e^{s_j}\Big)
        - \frac{s^+ + \lambda \sum_j A_j s_j}{1 + \lambda \sum_j A_j}, \qquad
        w_j = \frac{1 - P_j}{\mathrm{mean}_k (1 - P_k)}.

    The weights take false negatives out of the sum. Attraction makes likely members of the class
    further positives, so classes become tight and the exact pair is lost among them.

    With the aim ``"pairs"`` or ``"both"`` the loss is InfoNCE and one term more,

    .. math::
        \log\Big(e^{s^+} + \sum_j e^{s_j}\Big) - s^+
        + \frac{\lambda}{\kappa}
        \frac{\sum_j A_j \log\big(1 + N / e^{\kappa s_j}\big)}{\max(1, \sum_j A_j)}, \qquad
        N = \sum_k w_k e^{\kappa s_k}.

    It draws members past all that are not members, and ends there: which member is the positive is
    left to InfoNCE. If all :math:`P_j` are 0, both are exactly InfoNCE.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated. They must be bounded, as
            cosines divided by a temperature are: nothing else limits the attraction.
        same_class: :math:`P`, in [0, 1]; not differentiated. Entries that ``valid`` excludes may
            hold any number.
        attraction: :math:`\lambda`, in [0, 1e6]; at 0 nothing attracts.
        threshold: posterior above which a candidate attracts, in [0, 1].
        aim: ``"classes"`` for the first formula, ``"pairs"`` or ``"both"`` for the second.
        sharpness: :math:`\kappa`, positive: how soon a member that leads the others is left alone.
        is_labeled: True where :math:`P_j` is known to be right, as from labels. With ``"both"``, such
            pairs are treated by the first formula.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        One loss per anchor. By the first formula it may be negative if attracting candidates score
        higher than the positive.

    Raises:
        ValueError: if shapes do not match or a number is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> latent_loss(positive, unlabeled, torch.zeros(1, 2))
        tensor([0.4076])
        >>> latent_loss(positive, unlabeled, torch.tensor([[0.0, 1.0]]), aim="both")
        tensor([0.9591])

    See Also:
        :func:`~bayescl.functional.same_class`, which gives the posterior.
    """
    check_attraction(attraction)
    check_interval("threshold", threshold, 0.0, 1.0)
    check_shape("same_class", same_class, unlabeled.shape)
    if is_labeled is not None:
        check_mask("is_labeled", is_labeled, unlabeled.shape, unlabeled.device)
    check_choice("aim", aim, AIMS)
    check_positive("sharpness", sharpness)
    objective = Latent(attraction, threshold, aim, sharpness)
    return objective(positive, unlabeled, valid=valid, same_class=same_class, is_labeled=is_labeled)

"""The latent-class loss: a posterior of pairs says which candidates repel and which attract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional as F

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
from bayescl.functional.pairs import PairWeights, Scaled, mean_1

Aim = Literal["pairs", "classes"]
"""What training is for: the exact pair first and then its class, or the class alone."""

AIMS: tuple[Aim, ...] = ("pairs", "classes")

STRENGTH = 2.0
"""How strongly members are ranked above non-members, beside InfoNCE at the same temperature."""

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
    aim: Aim = "pairs"
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
        if self.aim == "classes" and not (isinstance(trust, float) and trust == 1):
            same_class = _trusted(same_class, is_labeled, trust)
        others = 1 - same_class  # [anchors, candidates], as all that follow
        excluded.fill_(others, 0.0)
        attracted = F.threshold(same_class, self.threshold, 0.0, inplace=True)  # P [P > threshold]
        excluded.fill_(attracted, 0.0)
        count = excluded.counts(others.shape[1], others.device).to(others.dtype)
        if self.aim == "classes":
            repel = None if self.members_repel else mean_1(others, count)
            return PairWeights(repel, self._target(attracted) if self.attraction else None)
        # All candidates repel, and members are ranked above the mean non-member.
        repel = attract = None
        if is_labeled is not None:  # no need for caution where labels settle pairs
            known = is_labeled.to(others.dtype)
            attract = self._target(attracted * known)
            attracted -= attract.matrix
            weights = (1 - known).addcmul_(known, others)
            excluded.fill_(weights, 0.0)
            repel = mean_1(weights, count)
        if isinstance(trust, float) and trust == 0:
            return PairWeights(repel, attract)
        strength = self.attraction * trust / max(1.0, self.sharpness)
        rank = Scaled(attracted, STRENGTH * strength / attracted.sum(dim=1).clamp_min(1))
        mean = mean_1(others, torch.ones_like(count))
        return PairWeights(repel, attract, rank, mean, self.sharpness, strength)

    def _target(self, pulls: Float[Tensor, "anchors candidates"]) -> Scaled:
        """Shares of the target, of which the positive has the rest."""
        return Scaled(pulls, self.attraction / (1 + self.attraction * pulls.sum(dim=1)))


def _trusted(
    same_class: Tensor, is_labeled: Tensor | None, trust: float | Tensor
) -> Float[Tensor, "anchors candidates"]:
    """The posterior as far as it is trusted; what labels settle is certain."""
    trusted = same_class * trust
    return trusted if is_labeled is None else torch.where(is_labeled, same_class, trusted)


def latent_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    same_class: Float[Tensor, "anchors candidates"],
    *,
    attraction: float = 1.0,
    threshold: float = THRESHOLD,
    aim: Aim = "pairs",
    sharpness: float = 1.0,
    trust: float = 1.0,
    is_labeled: Bool[Tensor, "anchors candidates"] | None = None,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""InfoNCE in which a posterior says which candidates are members of the anchor's class.

    With the probability :math:`P_j` that candidate :math:`j` shares the anchor's class,
    :math:`A_j = P_j\,[P_j > \text{threshold}]` and the trust :math:`\rho`, the loss with the aim
    ``"pairs"`` is InfoNCE and two terms more,

    .. math::
        \log\Big(1 + \frac{\sum_j e^{s_j}}{e^{s^+}}\Big)
        + \frac{\lambda \rho}{\max(1, \kappa)} \bigg[
        2\, \frac{\sum_j A_j \log\big(1 + \bar N / e^{\kappa s_j}\big)}{\max(1, \sum_j A_j)}
        + \log\Big(1 + \frac{\sum_j e^{\kappa s_j}}{e^{\kappa s^+}}\Big) \bigg], \qquad
        \bar N = \frac{\sum_k (1 - P_k)\, e^{\kappa s_k}}{\sum_k (1 - P_k)}.

    The first ranks members above the mean non-member, and ends there. The second, InfoNCE at
    another temperature, keeps what tells items apart. So the exact pair stays first, and its class
    comes next. If all :math:`P_j` are 0 nothing is ranked; if nothing is trusted, it is InfoNCE.

    With the aim ``"classes"`` members are further positives, and no longer negatives:

    .. math::
        \log\Big(e^{s^+} + \sum_j w_j e^{s_j}\Big)
        - \frac{s^+ + \lambda \sum_j A_j s_j}{1 + \lambda \sum_j A_j}, \qquad
        w_j = \frac{1 - P_j}{\mathrm{mean}_k (1 - P_k)},

    with :math:`\rho P_j` for :math:`P_j`. Classes become tight, and the exact pair is lost among
    them.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated. They must be bounded, as
            cosines divided by a temperature are: nothing else limits the attraction.
        same_class: :math:`P`, in [0, 1]; not differentiated. Entries that ``valid`` excludes may
            hold any number.
        attraction: :math:`\lambda`, in [0, 1e6]; at 0 nothing attracts.
        threshold: posterior above which a candidate attracts, in [0, 1].
        aim: ``"pairs"`` for the first formula, ``"classes"`` for the second.
        sharpness: :math:`\kappa`, positive: the temperature over 0.1, so that members are ranked
            at the temperature 0.1.
        trust: :math:`\rho`, in [0, 1].
        is_labeled: True where :math:`P_j` is known to be right, as from labels. Such pairs are
            treated by the second formula.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        One loss per anchor. By the second formula it may be negative if attracting candidates score
        higher than the positive.

    Raises:
        ValueError: if shapes do not match or a number is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> latent_loss(positive, unlabeled, torch.zeros(1, 2), trust=0.0)
        tensor([0.4076])
        >>> latent_loss(positive, unlabeled, torch.tensor([[0.0, 1.0]]), aim="classes")
        tensor([0.7395])

    See Also:
        :func:`~bayescl.functional.same_class`, which gives the posterior.
    """
    check_attraction(attraction)
    check_interval("threshold", threshold, 0.0, 1.0)
    check_interval("trust", trust, 0.0, 1.0)
    check_shape("same_class", same_class, unlabeled.shape)
    if is_labeled is not None:
        check_mask("is_labeled", is_labeled, unlabeled.shape, unlabeled.device)
    check_choice("aim", aim, AIMS)
    check_positive("sharpness", sharpness)
    objective = Latent(attraction, threshold, aim, sharpness)
    known: dict[str, Any] = {"same_class": same_class, "is_labeled": is_labeled, "trust": trust}
    return objective(positive, unlabeled, valid=valid, **known)

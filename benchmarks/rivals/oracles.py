"""The oracle that attracts: what could be had by whoever knew every false negative.

The library's :class:`~bayescl.OracleContrastiveLoss` leaves false negatives out. This one also
pulls them to the anchor, as supervised contrastive learning does.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rivals.library import check_non_negative, check_positive
from rivals.steps import Rival, Sizes, Step, two_view_logits


def attracting_oracle_loss(
    positive: Tensor, unlabeled: Tensor, *, same_class: Tensor, valid: Tensor, attraction: float
) -> Tensor:
    r"""The mean over an anchor's positives of -log softmax against its true negatives.

    .. math::
        \frac{\ell_+ + \lambda \sum_{j \in FN} \ell_j}{1 + \lambda |FN|}, \qquad
        \ell_j = -\log \frac{e^{s_j}}{e^{s_j} + e^{s_+} + \sum_{k \in TN} e^{s_k}},

    and :math:`\ell_+` is the oracle's loss, with :math:`e^{s_+}` counted once.

    Args:
        positive: logit of each anchor's other view, ``[anchors]``.
        unlabeled: logits of its candidates, ``[anchors, candidates]``.
        same_class: True where a candidate is of the anchor's class.
        valid: True where a candidate counts at all.
        attraction: :math:`\lambda`; 0 for the oracle that leaves out, 1 for a plain mean.

    Returns:
        One loss per anchor.
    """
    true_negative = unlabeled.masked_fill(~valid | same_class, -torch.inf)
    total = torch.cat([positive[:, None], true_negative], dim=1).logsumexp(dim=1)
    false_negative = valid & same_class
    pulled = F.softplus(total[:, None] - unlabeled).masked_fill(~false_negative, 0).sum(dim=1)
    share = attraction * false_negative.sum(dim=1)
    return (total - positive + attraction * pulled) / (1 + share)


class AttractingOracle(Rival):
    """False negatives, known from labels, are positives.

    Args:
        sizes: not used.
        temperature: softmax scale.
        attraction: weight of a false negative beside the other view's 1.
    """

    def __init__(
        self, sizes: Sizes | None = None, *, temperature: float = 0.5, attraction: float = 1.0
    ) -> None:
        super().__init__()
        del sizes
        self.temperature = check_positive("temperature", temperature)
        self.attraction = check_non_negative("attraction", attraction)

    def forward(self, step: Step) -> Tensor:
        """The mean over both views of all items."""
        pairs = two_view_logits(step.view_1, step.view_2, self.temperature)
        label = step.labels.repeat(2)
        return attracting_oracle_loss(
            pairs.logits[pairs.positive],
            pairs.logits,
            same_class=label[:, None] == label[None, :],
            valid=pairs.candidate,
            attraction=self.attraction,
        ).mean()

    def in_batch(self, anchors: Tensor, positives: Tensor, *, groups: Tensor) -> Tensor:
        """The mean over pairs whose candidates are the other pairs' positives.

        Args:
            anchors: embeddings, ``[batch, dim]``.
            positives: embeddings of each anchor's positive, row by row.
            groups: the class of each pair.
        """
        logits = F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T / self.temperature
        return attracting_oracle_loss(
            logits.diagonal(),
            logits,
            same_class=groups[:, None] == groups[None, :],
            valid=~torch.eye(len(logits), dtype=torch.bool, device=logits.device),
            attraction=self.attraction,
        ).mean()

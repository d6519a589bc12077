"""Two ways to draw scores from the class-conditional densities.

These are the paper's accept-reject algorithms, for all pending scores at once, and inversion of the
closed-form CDFs, which needs one uniform number per score. Both draw from the same densities.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl import functional as F
from bayescl.axes import Bool, Float, Int, Tensor
from bayescl_lab.paper.simulation.proposals import Proposals


class AcceptReject(NamedTuple):
    """Result of accept-reject sampling."""

    scores: Tensor
    """The accepted scores, one for each label."""

    proposed: Tensor
    """Number of proposals for each score, at least 1; int64."""


def sample_by_inversion(
    true_negative: Bool[Tensor, "anchors columns"],
    proposals: Proposals,
    *,
    alpha: float,
    generator: torch.Generator,
) -> Float[Tensor, "anchors columns"]:
    """Draw a score for every label, by inverting the CDF of its class.

    Args:
        true_negative: True for a true negative, False for a false negative or, equivalently, a
            positive.
        proposals: the anchors' distributions, one per row.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        generator: source of randomness.

    Returns:
        Scores in float64.

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> from bayescl_lab.paper.simulation import NormalProposals
        >>> labels = torch.tensor([[True, False]])
        >>> scores = sample_by_inversion(
        ...     labels, NormalProposals(), alpha=1.0, generator=torch.Generator().manual_seed(0)
        ... )
        >>> scores.shape
        torch.Size([1, 2])
    """
    level = torch.rand(true_negative.shape, generator=generator, dtype=torch.float64)
    proposal_level = F.true_negative_quantile(level, alpha=alpha)
    # False negatives are few: invert their CDF for them alone.
    false_negative = (~true_negative).flatten().nonzero().squeeze(1)
    proposal_level.view(-1)[false_negative] = F.false_negative_quantile(
        level.view(-1)[false_negative], alpha=alpha
    )
    return proposals.quantile(proposal_level, torch.arange(len(level))[:, None])


def sample_by_rejection(
    true_negative: Bool[Tensor, "anchors columns"],
    proposals: Proposals,
    *,
    alpha: float,
    generator: torch.Generator,
) -> AcceptReject:
    r"""Draw a score for every label, proposing until one is accepted.

    A score from :math:`\phi` is accepted with probability :math:`\phi_{TN} / (c\,\phi)` or
    :math:`\phi_{FN} / (c\,\phi)`, where :math:`c = 2\alpha` bounds both ratios. So a share
    :math:`1/(2\alpha)` of the proposals is accepted.

    Args:
        true_negative: True where a true negative is wanted, False for a false negative.
        proposals: the anchors' distributions, one per row.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        generator: source of randomness.

    Returns:
        Scores in float64, and how many proposals each took.

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> from bayescl_lab.paper.simulation import NormalProposals
        >>> labels = torch.ones(1, 1000, dtype=torch.bool)
        >>> drawn = sample_by_rejection(
        ...     labels, NormalProposals(), alpha=1.0, generator=torch.Generator().manual_seed(0)
        ... )
        >>> 0.45 < labels.numel() / int(drawn.proposed.sum()) < 0.55
        True

    Reference:
        Liu et al., ICML 2024, Algorithms "AccRejetSamplingTN" and "AccRejetSamplingFN".
    """
    labels = true_negative.flatten()
    columns = true_negative.shape[1]
    scores = torch.empty(labels.shape, dtype=torch.float64)
    proposed = torch.zeros(labels.shape, dtype=torch.int64)
    pending: Int[Tensor, " pending"] = torch.arange(len(labels))
    while len(pending):
        rows = pending // columns
        level = torch.rand(rows.shape, generator=generator, dtype=torch.float64)
        candidate = proposals.quantile(level, rows)
        cdf = proposals.cdf(candidate, rows)
        chance = torch.rand(cdf.shape, generator=generator, dtype=torch.float64)
        # The ratio of a class's density to the proposal's is its density at proposal density 1.
        one = torch.ones_like(cdf)
        ratio = torch.where(
            labels[pending],
            F.true_negative_density(one, cdf, alpha=alpha),
            F.false_negative_density(one, cdf, alpha=alpha),
        )
        accepted = chance <= ratio / (2 * alpha)
        scores[pending] = candidate
        proposed[pending] += 1
        pending = pending[~accepted]
    shape = true_negative.shape
    return AcceptReject(scores.view(shape), proposed.view(shape))

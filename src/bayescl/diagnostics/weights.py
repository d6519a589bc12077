"""Each candidate's weight and posterior: effective numbers and distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count
from bayescl.diagnostics.candidates import ScoredCandidates
from bayescl.functional import empirical_cdf, posterior, proposal_cdf
from bayescl.functional.excluded import Excluded
from bayescl.functional.log_space import log_count, masked_logsumexp
from bayescl.functional.objective import LogSumObjective
from bayescl.functional.ranks import Ranks
from bayescl.functional.sigmoid import Sigmoid


@torch.no_grad()
def candidate_weights(scored: ScoredCandidates) -> Float[Tensor, "anchors candidates"]:
    r"""Weight of every candidate in its anchor's sum.

    =========== ===========================================================================
    InfoNCE     1
    debiased    1: it corrects only the sum
    hard        :math:`e^{c s_i}` over its mean, with :math:`c` the concentration
    Bayesian    the importance weight, from the candidate's rank
    latent      :math:`1 - P_i` over its mean, with :math:`P_i` the posterior of the same class;
                1 while nothing is trusted
    oracle      1 for true negatives and 0 for false ones
    =========== ===========================================================================

    Args:
        scored: a batch; for the oracle, with labels.

    Returns:
        Non-negative weights, 0 where a candidate does not count. Their mean over an anchor's
        candidates is 1, near 1 for the Bayesian loss, and the share of true negatives for the
        oracle.

    Raises:
        TypeError: if the objective is a plain function, whose weights are unknown.
        ValueError: if the oracle's batch has no labels.

    Example:
        >>> import bayescl
        >>> from bayescl.diagnostics import score_candidates
        >>> logits = torch.tensor([[0.3, 2.0, -1.0]])
        >>> loss = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.5, tau_plus=0.1)
        >>> candidate_weights(score_candidates(loss, torch.zeros(1), logits, layout="logits"))
        tensor([[1.0394, 0.9148, 1.0838]])
    """
    objective, logits, valid = scored.objective, scored.unlabeled, scored.valid
    excluded = Excluded.without(valid)
    if isinstance(objective, Sigmoid):
        return valid.to(logits)
    if not isinstance(objective, LogSumObjective):
        raise TypeError(f"the weights of {type(objective).__name__} are not known")
    if scored.same_class is not None and objective.reads_same_class:
        known = scored.same_class.clone(), excluded, scored.is_labeled, scored.trust
        pairs = objective.pair_weights(*known)
        if pairs.others is None and pairs.repel is not None:
            return pairs.repel.matrix * pairs.repel.factor[:, None]
        # All candidates repel; what sets them apart is the posterior.
        negative = torch.where(valid, 1 - scored.same_class, 0.0)
        mean = negative.sum(1, keepdim=True) / valid.sum(1, keepdim=True)
        return torch.where(negative > 0, negative / mean, 0.0)
    weights = objective.weights(logits, valid=valid)
    tilt = objective.powers[0] - 1
    if tilt != 0:
        powers = tilt * logits
        log_mean = masked_logsumexp(powers, valid) - log_count(powers, valid)
        weights = weights * (powers - log_mean[:, None]).exp()
    return torch.where(scored.true_negative if scored.sees_labels else valid, weights, 0.0)


@torch.no_grad()
def candidate_posterior(
    scored: ScoredCandidates, *, alpha: float, tau_plus: float
) -> Float[Tensor, "anchors candidates"]:
    """Probability from ranks that each candidate is a true negative, at given parameters.

    Args:
        scored: a batch, of any loss.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Probabilities. Values of candidates that do not count are undefined.

    Raises:
        ValueError: if a parameter is out of range.

    See Also:
        :func:`bayescl.functional.posterior`: the formula.
    """
    ranks: Ranks = "upper" if getattr(scored.objective, "ranks", None) == "upper" else "mid"
    cdf = empirical_cdf(scored.unlabeled, valid=scored.valid, ranks=ranks)
    cdf = proposal_cdf(cdf, alpha=alpha, tau_plus=tau_plus)
    return posterior(cdf, alpha=alpha, tau_plus=tau_plus)


@torch.no_grad()
def effective_negatives(
    weights: Float[Tensor, "anchors candidates"],
    logits: Float[Tensor, "anchors candidates"] | None = None,
    *,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> Float[Tensor, " anchors"]:
    r"""Effective number of negatives of every anchor.

    .. math::
        N_{\text{eff}} = \frac{(\sum_i w_i)^2}{\sum_i w_i^2},

    the number of equally weighted candidates whose mean would have the same variance. With logits,
    the weights are multiplied by :math:`e^{s_i}`, which gives the number of candidates that make up
    the gradient.

    Args:
        weights: non-negative weights.
        logits: the candidates' logits.
        valid: True where a candidate counts.

    Returns:
        Values from 1 to the number of candidates; 0 for an anchor whose weights are all 0.

    Example:
        >>> effective_negatives(torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, 0.0]]))
        tensor([4., 1.])

    Reference:
        Kish, "Survey Sampling", 1965, on the effective sample size.
    """
    counted = weights > 0 if valid is None else valid & (weights > 0)
    log_terms = weights.log() if logits is None else logits + weights.log()
    shares = log_terms.masked_fill(~counted, -torch.inf).softmax(dim=1)
    return torch.where(counted.any(dim=1), 1 / shares.square().sum(dim=1), 0.0)


@dataclass(frozen=True)
class WeightHistogram:
    """Counts of weights between edges.

    Attributes:
        edges: bin edges, ascending; one more than bins.
        true_negatives: counts of true negatives, or of all candidates without labels.
        false_negatives: counts of false negatives; None without labels.
    """

    edges: Float[Tensor, " edges"]
    true_negatives: Int[Tensor, " bins"]
    false_negatives: Int[Tensor, " bins"] | None

    def figures(self) -> dict[str, Any]:
        """Plain numbers for a file."""
        values = vars(self).items()
        return {name: None if value is None else value.tolist() for name, value in values}


@torch.no_grad()
def weight_histogram(
    weights: Float[Tensor, " candidates"],
    false_negative: Bool[Tensor, " candidates"] | None = None,
    *,
    bins: int = 40,
    span: tuple[float, float] | None = None,
) -> WeightHistogram:
    """Count weights, or other values of candidates, in bins of equal width.

    Args:
        weights: of candidates that count.
        false_negative: which of them are false negatives, if known.
        bins: number of bins.
        span: range of the bins; values outside fall into the outermost bins. Default: from 0 to the
            largest weight.

    Returns:
        Counts of both kinds.

    Raises:
        ValueError: if there are no candidates.

    Example:
        >>> histogram = weight_histogram(torch.tensor([0.0, 1.0, 2.0]), bins=2)
        >>> histogram.true_negatives, histogram.edges
        (tensor([1, 2]), tensor([0., 1., 2.], dtype=torch.float64))
    """
    check_count("bins", bins, 1)
    if len(weights) == 0:
        raise ValueError("weights must not be empty, got no candidates")
    weights = weights.double()
    low, high = (0.0, float(weights.max()) or 1.0) if span is None else span
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64, device=weights.device)
    places = (torch.searchsorted(edges, weights, right=True) - 1).clamp(0, bins - 1)
    if false_negative is None:
        return WeightHistogram(edges, places.bincount(minlength=bins), None)
    true, false = places[~false_negative], places[false_negative]
    return WeightHistogram(edges, true.bincount(minlength=bins), false.bincount(minlength=bins))

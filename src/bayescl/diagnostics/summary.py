"""Diagnosis of a loss: effective negatives, detection of false negatives, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from bayescl._types import Bool, Float, Int, Tensor
from bayescl.diagnostics.candidates import ScoredCandidates, candidate_weights, joined
from bayescl.estimation import MeasuredAlpha, anchor_aucs, label_free_alpha
from bayescl.functional import empirical_cdf, posterior, proposal_cdf

_GROUPS = 20


class EffectiveNegatives(NamedTuple):
    r"""Effective numbers of negatives, averaged over anchors.

    .. math::
        N_{\text{eff}} = \frac{(\sum_i w_i)^2}{\sum_i w_i^2}

    is the number of equally weighted candidates that give the same variance of the mean. It lies
    between 1 and the number of candidates, or is 0 if all weights are 0.

    Reference:
        Kish, "Survey Sampling", 1965, on the effective sample size.
    """

    candidates: float
    """Number of candidates that count."""

    weighted: float
    """Effective number by the weights."""

    in_gradient: float
    """Effective number by the weights times the exponentiated logits, as in the gradient."""

    in_gradient_unweighted: float
    """Effective number by the exponentiated logits with all weights 1, as in InfoNCE."""


class Detection(NamedTuple):
    """How well a score separates false from true negatives, over all candidates of all anchors."""

    roc_auc: float
    """Probability that a false negative has a higher score than a true negative; 1/2 by chance."""

    average_precision: float
    """Average precision of the ranking by the score; ``share`` by chance."""

    share: float
    """Share of false negatives among the candidates."""


@dataclass(frozen=True)
class Calibration:
    """Calibration of the posterior of true negatives, in groups of similar predictions.

    Attributes:
        source: Source of the posterior's parameters.
        alpha: Parameter ``alpha`` of the posterior.
        tau_plus: Parameter ``tau_plus`` of the posterior.
        predicted: Mean prediction of each group, ascending.
        observed: Share of true negatives in each group.
        count: Number of candidates in each group.
        ece: Expected calibration error, the mean distance between observed and predicted.
        skill: Brier skill score: the fraction of the variance of the labels that the predictions
            explain. 1 is perfect. Always predicting the fraction of true negatives has a skill of
            0, and an ``ece`` of 0 too. ``None`` if all candidates have one class.

    Reference:
        Brier, "Verification of Forecasts Expressed in Terms of Probability", 1950.
    """

    source: str
    alpha: float
    tau_plus: float
    predicted: Float[Tensor, " groups"]
    observed: Float[Tensor, " groups"]
    count: Int[Tensor, " groups"]
    ece: float
    skill: float | None


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a loss on some batches.

    Attributes:
        anchors: Number of anchors.
        effective: Effective numbers of negatives.
        label_free: Label-free ``alpha`` at the loss's ``tau_plus``, or else at the measured one.
            ``None`` without either.
        measured: ``alpha`` from the labels. Without labels, this and the
            values below are ``None`` or empty.
        measured_tau_plus: Share of false negatives among the candidates.
        by_weight: Detection of false negatives by small weights.
        by_logit: Detection of false negatives by large logits, for comparison.
        mean_weight_false: Mean weight of false negatives; ideally 0.
        mean_weight_true: Mean weight of true negatives.
        false_share: Share of false negatives in the sum of ``w e^s`` over an anchor's candidates,
            averaged over anchors.
        posteriors: Calibration of the posterior at assumed and at measured parameters.
    """

    anchors: int
    effective: EffectiveNegatives
    label_free: MeasuredAlpha | None
    measured: MeasuredAlpha | None = None
    measured_tau_plus: float | None = None
    by_weight: Detection | None = None
    by_logit: Detection | None = None
    mean_weight_false: float | None = None
    mean_weight_true: float | None = None
    false_share: float | None = None
    posteriors: tuple[Calibration, ...] = ()


@torch.no_grad()
def diagnose(batches: Sequence[ScoredCandidates]) -> Diagnosis:
    """Compute the diagnosis of a loss over all candidates of some batches.

    Args:
        batches: Batches scored by one loss, either all with labels or all without.

    Returns:
        The diagnosis. Values that need labels are ``None`` without labels.

    Raises:
        TypeError: if the objective's weights are not known.
        ValueError: if there are no batches or candidates, or labels are missing for the oracle.

    Example:
        >>> import bayescl
        >>> from bayescl.diagnostics import score_candidates
        >>> labels = torch.arange(12) % 3
        >>> views = torch.eye(3)[labels] + 0.1 * torch.eye(12)[:, :3]
        >>> loss = bayescl.BayesianContrastiveLoss(alpha=0.9, tau_plus=0.25)
        >>> diagnosis = diagnose([score_candidates(loss, views, views, labels=labels)])
        >>> diagnosis.by_weight.roc_auc, round(diagnosis.measured_tau_plus, 3)
        (1.0, 0.273)
    """
    if not any(bool(scored.valid.any()) for scored in batches):
        raise ValueError("batches must contain at least one candidate, got none")
    scored = joined(batches)
    objective, valid = scored.objective, scored.valid
    alpha, tau_plus = (getattr(objective, name, None) for name in ("alpha", "tau_plus"))
    every_weight = candidate_weights(scored)
    log_weights, weights = every_weight.log(), every_weight[valid]
    repulsion = _shares(scored.unlabeled + log_weights)
    truth = None if scored.false_negative is None else scored.false_negative[valid]
    share = None if truth is None else float(truth.double().mean())
    free = None
    prior = share if tau_plus is None else tau_plus
    if prior is not None and prior < 1:  # at 1 there are no true negatives
        free = label_free_alpha(scored.positive, scored.unlabeled, valid=valid, tau_plus=prior)
    unjudged = Diagnosis(
        anchors=len(valid),
        effective=EffectiveNegatives(
            candidates=float(valid.sum(dim=1).double().mean()),
            weighted=_effective_number(_shares(log_weights)),
            in_gradient=_effective_number(repulsion),
            in_gradient_unweighted=_effective_number(
                _shares(scored.unlabeled.masked_fill(~valid, -torch.inf))
            ),
        ),
        label_free=free,
    )
    if truth is None or share is None:
        return unjudged
    auc = float(anchor_aucs(scored.unlabeled, scored.truth, valid=valid).nanmean())
    # The AUC is NaN if no anchor has both true and false negatives.
    measured = None if auc != auc else MeasuredAlpha(auc)
    posteriors = []
    parameters = [("assumed", alpha, tau_plus)]
    if measured is not None:
        parameters.append(("measured, model reading", measured.model, share))
        parameters.append(("measured, authors' reading", measured.authors, share))
    upper = getattr(objective, "ranks", None) == "upper"
    cdf = empirical_cdf(scored.unlabeled, valid=valid, ranks="upper" if upper else "mid")[valid]
    for source, at, of in parameters:
        if at is not None and of is not None:
            proposal = proposal_cdf(cdf, alpha=at, tau_plus=of)
            predicted = posterior(proposal, alpha=at, tau_plus=of)
            posteriors.append(calibration(predicted, ~truth, source, at, of))
    false, true = (weights[kind].double() for kind in (truth, ~truth))
    return replace(
        unjudged,
        measured=measured,
        measured_tau_plus=share,
        by_weight=detection(-weights, truth),
        by_logit=detection(scored.unlabeled[valid], truth),
        mean_weight_false=float(false.mean()) if len(false) else None,
        mean_weight_true=float(true.mean()) if len(true) else None,
        false_share=float(repulsion.where(scored.truth, 0).sum(dim=1).double().mean()),
        posteriors=tuple(posteriors),
    )


def _shares(log_terms: Float[Tensor, "anchors candidates"]) -> Float[Tensor, "anchors candidates"]:
    """Compute each candidate's share of its anchor's sum; 0 for an empty sum."""
    return torch.where(log_terms > -torch.inf, log_terms.softmax(dim=1), 0.0)


def _effective_number(shares: Float[Tensor, "anchors candidates"]) -> float:
    """Compute the mean effective number of candidates from their shares."""
    squares = shares.square().sum(dim=1)
    return float(torch.where(squares == 0, 0.0, 1 / squares).double().mean())


def detection(
    suspicion: Float[Tensor, " candidates"], false_negative: Bool[Tensor, " candidates"]
) -> Detection | None:
    """Evaluate a score for false negatives; ``None`` if all candidates have one class."""
    share = float(false_negative.double().mean())  # NaN if there are no candidates
    if not 0 < share < 1:
        return None
    values, order = suspicion.double().sort(descending=True)
    kinds = false_negative[order]
    # One entry per run of equal values: the number of false negatives up to its end.
    ends = torch.unique_consecutive(values, return_counts=True)[1].cumsum(0)
    found = kinds.cumsum(0)[ends - 1].double()
    gained = found.diff(prepend=found[:1] * 0)
    precision = float((gained * found / ends).sum() / found[-1])
    return Detection(float(anchor_aucs(values[None], kinds[None])), precision, share)


def calibration(
    predicted: Float[Tensor, " candidates"],
    true_negative: Bool[Tensor, " candidates"],
    source: str,
    alpha: float,
    tau_plus: float,
) -> Calibration:
    """Compare a posterior with the labels in at most 20 groups.

    A posterior from ranks has a narrow range: between 0.5 and 0.99 at ``alpha = 0.9`` and
    ``tau_plus = 0.1``, mostly above 0.9. Groups therefore have equally many candidates. Equal
    predictions are in one group.
    """
    values, order = predicted.double().sort()
    truth = true_negative[order].double()
    inner = torch.arange(1, _GROUPS, device=values.device)
    # A group starts at the first of equal values, so no value is in two groups.
    edges = torch.unique(values[inner * len(values) // _GROUPS])
    group = torch.searchsorted(edges, values, right=True).unique_consecutive(return_inverse=True)[1]
    count = group.bincount()
    means = group.bincount(values) / count, group.bincount(truth) / count
    ece = float(((means[1] - means[0]).abs() * count).sum() / count.sum())
    variance = float(truth.var(correction=0))
    skill = 1 - float((values - truth).square().mean()) / variance if variance > 0 else None
    return Calibration(source, alpha, tau_plus, *means, count, ece, skill)

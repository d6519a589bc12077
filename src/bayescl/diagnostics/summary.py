"""All figures of some batches in one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from bayescl.axes import Tensor
from bayescl.diagnostics.candidates import ScoredCandidates
from bayescl.diagnostics.evaluation import (
    Calibration,
    ConfidentPairs,
    Detection,
    calibration,
    confident_pairs,
    false_negative_detection,
)
from bayescl.diagnostics.weights import (
    WeightHistogram,
    candidate_posterior,
    candidate_weights,
    effective_negatives,
    weight_histogram,
)
from bayescl.estimation import MeasuredAlpha, anchor_aucs, label_free_alpha


@dataclass(frozen=True)
class EffectiveNegatives:
    """Effective numbers of negatives, averaged over anchors.

    Attributes:
        candidates: candidates that count.
        weighted: from the weights alone.
        in_gradient: from the weights times the exponentiated logits, which make up the gradient.
        in_gradient_unweighted: the same with all weights 1, as in InfoNCE.
    """

    candidates: float
    weighted: float
    in_gradient: float
    in_gradient_unweighted: float


@dataclass(frozen=True)
class PosteriorCheck:
    """The posterior at some parameters, compared with the labels.

    Attributes:
        source: source of the parameters, or "latent classes" for the loss's own posterior.
        alpha: of a posterior from ranks; None for one from latent classes.
        tau_plus: likewise.
        calibration: the comparison.
    """

    source: str
    alpha: float | None
    tau_plus: float | None
    calibration: Calibration

    @property
    def name(self) -> str:
        """The source and its parameters, for a reader."""
        if self.alpha is None or self.tau_plus is None:
            return self.source
        return f"{self.source}: alpha {self.alpha:.3f}, tau_plus {self.tau_plus:.3f}"

    def figures(self) -> dict[str, Any]:
        """Plain numbers for a file."""
        result, groups = self.calibration, ("predicted", "observed", "count")
        plain = {name: getattr(self, name) for name in ("source", "alpha", "tau_plus")}
        plain |= {name: getattr(result, name) for name in ("ece", "skill")}
        return plain | {name: getattr(result, name).tolist() for name in groups}


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a loss on some batches.

    Attributes:
        anchors: number of anchors.
        assumed_alpha: the loss's alpha; None if it has none.
        assumed_tau_plus: the loss's tau_plus; None if it has none.
        effective: effective numbers of negatives.
        label_free: label-free alpha at the assumed tau_plus (or the measured one); None if neither
            is known.
        measured: alpha from the labels. None without labels, like the following.
        measured_tau_plus: share of false negatives among the candidates.
        by_weight: how well small weights find false negatives.
        by_logit: how well large logits find them; the basis of any weight that decreases with rank.
        mean_weight_false: mean weight of false negatives; 0 would be ideal.
        mean_weight_true: mean weight of true negatives.
        false_share: share of the repulsion, the sum of ``w e^s`` over an anchor's candidates, that
            falls on false negatives; the mean over anchors.
        posteriors: the posterior's calibration at assumed and at measured parameters.
        confident: candidates that the posterior of latent classes puts into the anchor's class;
            None if the loss has no such posterior or does not trust it.
        histogram: weights of both kinds (of all candidates without labels).
    """

    anchors: int
    assumed_alpha: float | None
    assumed_tau_plus: float | None
    effective: EffectiveNegatives
    histogram: WeightHistogram
    label_free: MeasuredAlpha | None = None
    measured: MeasuredAlpha | None = None
    measured_tau_plus: float | None = None
    by_weight: Detection | None = None
    by_logit: Detection | None = None
    mean_weight_false: float | None = None
    mean_weight_true: float | None = None
    false_share: float | None = None
    posteriors: tuple[PosteriorCheck, ...] = ()
    confident: ConfidentPairs | None = None

    def figures(self) -> dict[str, Any]:
        """Plain numbers for a file."""
        measured = _readings(self.measured)
        if measured is not None:
            measured["tau_plus"] = self.measured_tau_plus
        weights = {"false": self.mean_weight_false, "true": self.mean_weight_true}
        return {
            "anchors": self.anchors,
            "assumed": {"alpha": self.assumed_alpha, "tau_plus": self.assumed_tau_plus},
            "measured": measured,
            "label_free": _readings(self.label_free),
            "effective_negatives": asdict(self.effective),
            "by_weight": self.by_weight and self.by_weight._asdict(),
            "by_logit": self.by_logit and self.by_logit._asdict(),
            "mean_weight": None if self.mean_weight_true is None else weights,
            "false_share": self.false_share,
            "confident_pairs": self.confident and self.confident._asdict(),
            "posteriors": [check.figures() for check in self.posteriors],
            "histogram": self.histogram.figures(),
        }


def _readings(alpha: MeasuredAlpha | None) -> dict[str, float | None] | None:
    """An AUC and both readings of it, by name."""
    if alpha is None:
        return None
    return {"auc": alpha.auc, "alpha_model": alpha.model, "alpha_authors": alpha.authors}


@torch.no_grad()
def diagnose(batches: Sequence[ScoredCandidates]) -> Diagnosis:
    """Compute every figure that the batches allow, over all their candidates.

    Args:
        batches: batches scored by one loss; either all with labels or none.

    Returns:
        The figures. Without labels those that need them are None.

    Raises:
        TypeError: if the objective's weights are not known.
        ValueError: if there are no batches, or labels are missing for the oracle.

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
    if not batches:
        raise ValueError("batches must not be empty, got none")
    objective = batches[0].objective
    alpha, tau_plus = (getattr(objective, name, None) for name in ("alpha", "tau_plus"))
    weights = [candidate_weights(scored) for scored in batches]
    all_weights = counted(batches, weights)
    same_class = counted(batches, [scored.same_class for scored in batches])
    truth = counted(batches, [scored.false_negative for scored in batches])
    share = None if truth is None else float(truth.double().mean())
    confident = None
    if same_class is not None:
        threshold = getattr(objective, "threshold", 0.5)
        confident = confident_pairs(same_class, truth, threshold=threshold)
    unjudged = Diagnosis(
        anchors=sum(len(scored.positive) for scored in batches),
        assumed_alpha=alpha,
        assumed_tau_plus=tau_plus,
        effective=_effective(batches, weights),
        histogram=weight_histogram(all_weights, truth),
        label_free=_label_free(batches, share if tau_plus is None else tau_plus),
        confident=confident,
    )
    if truth is None or share is None:
        return unjudged
    aucs = torch.cat([anchor_aucs(s.unlabeled, s.truth, valid=s.valid) for s in batches])
    aucs = aucs[~aucs.isnan()]  # of anchors with candidates of both kinds
    measured = MeasuredAlpha(float(aucs.mean())) if len(aucs) else None
    posteriors = []
    if same_class is not None:
        check = calibration(1 - same_class, ~truth, equal_width=True)
        posteriors.append(PosteriorCheck("latent classes", None, None, check))
    parameters = []
    if alpha is not None and tau_plus is not None:
        parameters.append(("assumed", alpha, tau_plus))
    if measured is not None:
        parameters.append(("measured, model reading", measured.model, share))
        parameters.append(("measured, authors' reading", measured.authors, share))
    for source, at_alpha, at_prior in parameters:
        values = [candidate_posterior(s, alpha=at_alpha, tau_plus=at_prior) for s in batches]
        check = calibration(counted(batches, values), ~truth)
        posteriors.append(PosteriorCheck(source, at_alpha, at_prior, check))
    false, true = (all_weights[kind].double() for kind in (truth, ~truth))
    return replace(
        unjudged,
        measured=measured,
        measured_tau_plus=share,
        by_weight=false_negative_detection(-all_weights, truth),
        by_logit=false_negative_detection(counted(batches, [s.unlabeled for s in batches]), truth),
        mean_weight_false=float(false.mean()) if len(false) else None,
        mean_weight_true=float(true.mean()) if len(true) else None,
        false_share=_false_share(batches, weights),
        posteriors=tuple(posteriors),
    )


def counted(batches: Sequence[ScoredCandidates], values: Sequence[Tensor | None]) -> Any:
    """Values of the candidates that count, of all batches in one row; None if one is None."""
    kept = [v[s.valid] for s, v in zip(batches, values, strict=True) if v is not None]
    return torch.cat(kept) if len(kept) == len(batches) else None


def _false_share(batches: Sequence[ScoredCandidates], weights: Sequence[Tensor]) -> float:
    """Share of false negatives in the sum of weighted exponentials."""
    shares = []
    for scored, weight in zip(batches, weights, strict=True):
        logits = scored.unlabeled.masked_fill(~scored.valid, -torch.inf)
        repulsion = weight * logits.softmax(dim=1)
        shares.append(repulsion.where(scored.truth, 0).sum(dim=1) / repulsion.sum(dim=1))
    return float(torch.cat(shares).nan_to_num(0.0).double().mean())


def _effective(
    batches: Sequence[ScoredCandidates], weights: Sequence[Tensor]
) -> EffectiveNegatives:
    """Means over the anchors of all batches."""
    rows = []
    for scored, weight in zip(batches, weights, strict=True):
        logits, valid = scored.unlabeled, scored.valid
        numbers = (
            valid.sum(dim=1).to(weight.dtype),
            effective_negatives(weight, valid=valid),
            effective_negatives(weight, logits, valid=valid),
            effective_negatives(valid.to(weight), logits, valid=valid),
        )
        rows.append(torch.stack(numbers))
    return EffectiveNegatives(*torch.cat(rows, dim=1).double().mean(dim=1).tolist())


def _label_free(
    batches: Sequence[ScoredCandidates], tau_plus: float | None
) -> MeasuredAlpha | None:
    """Alpha without labels; the mean over batches. Without true negatives there is none."""
    if tau_plus is None or tau_plus >= 1:
        return None
    full = [scored for scored in batches if bool(scored.valid.any())]
    aucs = [
        label_free_alpha(s.positive, s.unlabeled, valid=s.valid, tau_plus=tau_plus).auc
        for s in full
    ]
    return MeasuredAlpha(sum(aucs) / len(aucs)) if aucs else None

"""Logits, masks, weights and false negatives of a batch, as a loss computes them.

The loss is called with an objective that records its input. Masks, normalization and temperature
are therefore the same as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
import torch.nn.functional as F

from bayescl._checks import check_choice, check_mask
from bayescl._ops.log_space import log_count, masked_logsumexp
from bayescl._ops.objective import LogSumObjective, Objective
from bayescl._types import Bool, Float, Int, Tensor
from bayescl.batch import Layout
from bayescl.losses import ContrastiveLoss


@dataclass(frozen=True)
class ScoredCandidates:
    """Logits and masks of a batch, as computed by a loss.

    Attributes:
        positive: Logit of each anchor's positive.
        unlabeled: Logits of each anchor's candidates.
        valid: True where a candidate counts.
        objective: Objective of the loss at its current parameters.
        false_negative: True where a candidate counts and has the anchor's class. ``None`` without
            labels.
        sees_labels: Whether the loss excludes false negatives, as the oracle does.
    """

    positive: Float[Tensor, " anchors"]
    unlabeled: Float[Tensor, "anchors candidates"]
    valid: Bool[Tensor, "anchors candidates"]
    objective: Objective
    false_negative: Bool[Tensor, "anchors candidates"] | None = None
    sees_labels: bool = False

    @property
    def truth(self) -> Bool[Tensor, "anchors candidates"]:
        """``false_negative``, if it is known.

        Raises:
            ValueError: if there are no labels.
        """
        if self.false_negative is None:
            raise ValueError("false negatives are unknown: pass labels or false_negative")
        return self.false_negative

    @property
    def true_negative(self) -> Bool[Tensor, "anchors candidates"]:
        """True where a candidate counts and has another class; see :attr:`truth`."""
        return self.valid & ~self.truth


@torch.no_grad()
def score_candidates(
    loss: ContrastiveLoss,
    *embeddings: Tensor,
    layout: Layout = "two_views",
    labels: Int[Tensor, " batch"] | None = None,
    false_negative: Bool[Tensor, "anchors candidates"] | None = None,
    **options: Any,
) -> ScoredCandidates:
    """Compute the logits of a batch as a loss does, and mark false negatives.

    Args:
        loss: Loss of :mod:`bayescl.losses`.
        *embeddings: Arguments of the loss: two views, pairs, pairs and candidates, or the logits of
            positives and candidates.
        layout: Call of the loss: ``"two_views"``, ``"in_batch"``, ``"sampled"`` or ``"logits"``.
            Default: ``"two_views"``.
        labels: Class of each item, if all candidates are items of the batch. They mark false
            negatives. Only the oracle's weights depend on them. Default: unknown.
        false_negative: True where a candidate is a false negative, instead of labels. For a
            recommender, for example, True where a candidate is a held-out item.
        **options: Further arguments of the call, such as ``groups``, ``valid`` or ``extra``.

    Returns:
        Logits, masks and the objective.

    Raises:
        ValueError: if an argument of the call is invalid, labels cannot be used with the layout, or
            ``both_directions`` is set.

    Example:
        >>> import bayescl
        >>> view = torch.eye(4)
        >>> scored = score_candidates(
        ...     bayescl.InfoNCELoss(), view, view, labels=torch.tensor([0, 0, 1, 2])
        ... )
        >>> scored.unlabeled.shape, int(scored.valid.sum()), int(scored.truth.sum())
        (torch.Size([8, 8]), 48, 8)
    """
    check_choice("layout", layout, get_args(Layout))
    if labels is not None:
        if layout in ("sampled", "logits") or "extra" in options or false_negative is not None:
            raise ValueError(
                "labels must be None if false_negative is given, or if candidates are not the "
                "positives of the batch; pass false_negative instead"
            )
        by_label = _recorded(loss, layout, embeddings, {**options, "groups": labels})
        false_negative = ~by_label.valid
    scored = _recorded(loss, layout, embeddings, options)
    if false_negative is None:
        return scored
    check_mask("false_negative", false_negative, scored.valid.shape)
    return replace(scored, false_negative=scored.valid & false_negative)


def joined(batches: Sequence[ScoredCandidates]) -> ScoredCandidates:
    """Concatenate batches of one loss. Batches with fewer candidates are padded and masked."""
    widest = max(scored.valid.shape[1] for scored in batches)

    def rows(name: str) -> Any:
        parts = [getattr(scored, name) for scored in batches]
        if any(part is None for part in parts):
            return None
        return torch.cat([F.pad(part, (0, widest - part.shape[1])) for part in parts])

    whole = {name: rows(name) for name in ("unlabeled", "valid", "false_negative")}
    positive = torch.cat([scored.positive for scored in batches])
    return replace(batches[0], positive=positive, **whole)


def _recorded(
    loss: ContrastiveLoss, layout: Layout, embeddings: tuple[Tensor, ...], options: dict[str, Any]
) -> ScoredCandidates:
    """Return the arguments that the objective receives in a call of the loss."""
    calls: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def record(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
        calls.append((positive, unlabeled, valid))
        return torch.zeros_like(positive)

    same: Any = {"temperature": loss.temperature, "normalize": loss.normalize}
    twin = ContrastiveLoss(record, **same, reduction="none", engine="reference")
    twin._given_warnings = {"candidates", "labels"}  # the original loss gives the warnings
    names = {"two_views": "forward", "views": "forward", "logits": "from_logits"}
    getattr(twin, names.get(layout, layout))(*embeddings, **options)
    if len(calls) != 1:
        raise ValueError("both_directions must be False: score one direction at a time")
    positive, unlabeled, valid = calls[0]
    if valid is None:
        valid = torch.ones_like(unlabeled, dtype=torch.bool)
    objective = loss.objective(loss.temperature)
    return ScoredCandidates(positive, unlabeled, valid, objective, sees_labels=loss.needs_groups)


@torch.no_grad()
def candidate_weights(scored: ScoredCandidates) -> Float[Tensor, "anchors candidates"]:
    r"""Compute the weight of every candidate in its anchor's sum.

    =========== ===========================================================================
    InfoNCE     1
    debiased    1, because only the sum is corrected
    hard        :math:`e^{c s_i}` over its mean, with :math:`c` the concentration
    Bayesian    importance weight, from the candidate's rank
    oracle      1 for true negatives and 0 for false negatives
    =========== ===========================================================================

    Args:
        scored: Result of :func:`score_candidates`. The oracle needs labels.

    Returns:
        Non-negative weights, 0 where a candidate does not count. The mean over an anchor's
        candidates is near 1 for the Bayesian loss, the share of true negatives for the oracle,
        and 1 otherwise.

    Raises:
        TypeError: if the objective is a plain function, which has no weights.
        ValueError: if the oracle's batch has no labels.

    Example:
        >>> import bayescl
        >>> logits = torch.tensor([[0.3, 2.0, -1.0]])
        >>> loss = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.5, tau_plus=0.1)
        >>> candidate_weights(score_candidates(loss, torch.zeros(1), logits, layout="logits"))
        tensor([[1.0394, 0.9148, 1.0838]])
    """
    objective, logits, valid = scored.objective, scored.unlabeled, scored.valid
    if not isinstance(objective, LogSumObjective):
        raise TypeError(f"objective must be a LogSumObjective, got {type(objective).__name__}")
    weights = objective.weights(logits, valid=valid)
    tilt = objective.powers[0] - 1
    if tilt != 0:
        powers = tilt * logits
        log_mean = masked_logsumexp(powers, valid) - log_count(powers, valid)
        weights = weights * (powers - log_mean[:, None]).exp()
    return torch.where(scored.true_negative if scored.sees_labels else valid, weights, 0.0)

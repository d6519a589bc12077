"""The base class of all losses: settings, state and evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from typing_extensions import TypedDict

from bayescl import distributed
from bayescl._checks import check_choice, check_count
from bayescl._engine import ENGINES, Engine, blocked_losses, reference_losses
from bayescl._ops.objective import Objective
from bayescl._ops.target import check_positive_share
from bayescl._types import Float, Tensor
from bayescl.batch import Batch, TargetRule
from bayescl.losses import steps
from bayescl.losses.candidates import CandidateWatch, refuse_not_finite
from bayescl.losses.margin import Margin, check_margin, within_margin
from bayescl.losses.parameters import (
    Hyperparameter,
    LearnableTemperature,
    SavedNumbers,
    check_temperature,
)

Reduction = Literal["mean", "sum", "none"]


class SharedOptions(TypedDict, total=False):
    """Arguments that every loss takes; see :class:`~bayescl.ContrastiveLoss`."""

    temperature: float | LearnableTemperature
    positive_share: float | None
    teacher_temperature: float | None
    normalize: bool
    reduction: Reduction
    engine: Engine
    chunk_size: int | None
    gather: bool
    check_finite: bool


_OTHER_NAMES = dict.fromkeys(("tau", "t", "scale", "logit_scale", "softmax_scale"), "temperature")
"""Names of shared arguments in other libraries."""

_LARGEST_USUAL_TEMPERATURE = 5.0
"""Above this value, the caller probably passed a scale, which multiplies. The cosine of a pair then
moves its logit by less than 0.4, and the softmax is almost uniform."""


class BatchLoss(SavedNumbers):
    """Settings, state and evaluation of :class:`~bayescl.ContrastiveLoss`."""

    needs_groups = False
    """Whether the loss is undefined without ``groups``."""

    needs_labels = False
    """Whether the loss is undefined without ``labels``."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """Names of arguments in other libraries, for error messages."""

    positive_share = Hyperparameter(check_positive_share, 0.2, 0.1, 1.0)

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        temperature: float | LearnableTemperature = 0.5,
        positive_share: float | None = 0.5,
        teacher_temperature: float | None = None,
        normalize: bool = True,
        reduction: Reduction = "mean",
        engine: Engine = "auto",
        chunk_size: int | None = None,
        gather: bool = False,
        check_finite: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__()
        for name in unknown:
            word = {**_OTHER_NAMES, **self.other_names}.get(name)
            hint = "" if word is None else f": it is called {word} here"
            raise TypeError(f"{type(self).__name__} has no argument {name!r}{hint}")
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("engine", engine, ENGINES)
        if chunk_size is not None:
            check_count("chunk_size", chunk_size, 1)
        self._objective = objective
        self.learnable_temperature: LearnableTemperature | None = None
        if isinstance(temperature, LearnableTemperature):
            self.learnable_temperature = temperature
        else:
            self.temperature = temperature
            if self.temperature > _LARGEST_USUAL_TEMPERATURE:
                warnings.warn(
                    f"temperature={temperature:g} divides similarities: usual values are 0.05 to "
                    "1. For a scale that multiplies them, pass 1 / scale",
                    stacklevel=3,
                )
        self.positive_share = positive_share
        self.teacher_temperature = (
            None
            if teacher_temperature is None
            else check_temperature(teacher_temperature, "teacher_temperature")
        )
        self.normalize = normalize
        self.reduction = reduction
        self.engine = engine
        self.chunk_size = chunk_size
        self.gather = gather
        self.check_finite = check_finite
        self._watch = CandidateWatch()

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits at a temperature. A new loss overrides this method."""
        del temperature  # an objective passed in does not depend on it
        if self._objective is None:
            raise TypeError(f"{type(self).__name__} needs an objective: pass a function of logits")
        return self._objective

    def evaluate(
        self,
        *batches: Batch,
        temperature: float | Float[Tensor, ""] | None = None,
        margin: Margin | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of a batch.

        The calls (``loss(...)``, ``in_batch``, ``sampled``) build a batch and pass it on to this
        method. Use it for a :class:`~bayescl.batch.Batch` of your own. Embeddings are used as they
        are, also with ``normalize``; rows with metadata must come from
        :meth:`Rows.checked <bayescl.batch.Rows.checked>`.

        Args:
            *batches: This process's batch, and the second direction if there is one.
            temperature: Temperature of the softmax. Default: the loss's own.
            margin: Rule that excludes candidates that score like the positive. Default: none.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair.
        """
        if temperature is None:
            temperature = self.current_temperature()
        if margin is not None:
            with self._shared_errors():
                check_margin(margin, batches)
        parts, factor = list(batches), 1.0
        if self._gathers:
            parts, factor = steps.gathered(parts, temperature)
        # Ranks and sums need float32: bfloat16 has about 1,350 distinct values for 4,096 cosines.
        with steps.without_autocast(parts[0].anchors.embeddings.device):
            if margin is not None:
                parts = [within_margin(part, margin) for part in parts]
            losses = self._losses(parts[0], temperature)
            if len(parts) > 1:
                losses = torch.cat([losses, self._losses(parts[1], temperature)])
        if self.check_finite:
            with self._shared_errors():
                refuse_not_finite(losses, parts, temperature)
                if parts[0].needs_mask:
                    self._watch.look_at(losses, parts[0], check=True)
            if self._gathers:
                distributed.exchange({})  # raises if the input of another process was invalid
        elif parts[0].needs_mask:
            self._watch.look_at(losses, parts[0], check=False)
        if batches[0].weight is not None and self.reduction == "mean":
            return losses.sum() / sum(map(steps.total_weight, batches)) * factor
        return self.reduced(losses, factor)

    def _losses(self, batch: Batch, temperature: float | Tensor) -> Float[Tensor, " pairs"]:
        """Compute one loss per pair of a batch with complete columns."""
        if batch.positives.log_q is not None:
            batch = steps.corrected(batch, batch.positives.log_q, temperature)
        if batch.valid is not None:
            batch = steps.with_zeroed_rows(batch)
        is_taught = batch.anchors.teacher is not None or batch.anchors.labels is not None
        if is_taught and self.positive_share != 1:
            own = self.teacher_temperature
            rule = TargetRule(temperature if own is None else own, self.positive_share)
            batch = replace(batch, target=rule)
        traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        if self.engine == "reference" or (traced and self.engine == "auto"):
            return reference_losses(batch, temperature, self.objective)
        return blocked_losses(
            batch,
            temperature,
            self.objective,
            shared_upstream=self.reduction != "none",
            chunk_size=self.chunk_size,
        )

    def reduced(
        self, losses: Float[Tensor, " pairs"], factor: float = 1.0
    ) -> Float[Tensor, "*pairs"]:
        """Return the losses' mean times ``factor``, their sum, or the losses themselves."""
        if self.reduction == "mean":
            mean = losses.mean()
            return mean if factor == 1 else mean * factor
        return losses.sum() if self.reduction == "sum" else losses

    @property
    def _gathers(self) -> bool:
        """Whether there are other processes to gather from."""
        return self.gather and distributed.world_size() > 1

    def _shared_errors(self) -> AbstractContextManager[None]:
        """Make every process raise if one process raises while it checks its input."""
        return distributed.shared_refusals() if self._gathers else nullcontext()

"""``bayescl inspect`` of any run: from a sample of scored batches to figures and files.

A kind of run brings a sampler, which scores batches as in training: of images with two views, of
users with the items that they do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from bayescl.axes import Bool, Int, Tensor
from bayescl.diagnostics import (
    Diagnosis,
    ScoredCandidates,
    candidate_weights,
    diagnose,
    reliability_figure,
    weights_figure,
)
from bayescl.losses import BayesianContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._files import save_figure
from bayescl_lab.runs.advice import Advice
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.run import TrainedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyRun = TypeVar("AnyRun", bound=TrainedRun[Any])

Row = dict[str, Any]
"""An anchor with the candidates of least ("down") and most weight ("up"), as plain values."""


@dataclass(frozen=True)
class Sample:
    """What a sampler draws of a run's data.

    Attributes:
        batches: candidates as the run's loss scores them.
        anchors: what rows on the first anchors of the first batch say.
        names: what to call the candidates of some columns of the first batch.
        valid: the candidates of the first batch that may be shown; default: all that count.
        about: further content of ``inspection.json``.
        title: of figures.
        draw: further figures, from the rows on anchors and from what weights their candidates.
        advice: which loss the embeddings ask for.
    """

    batches: Sequence[ScoredCandidates]
    anchors: Sequence[Row]
    names: Callable[[Int[Tensor, " shown"]], list[Any]]
    about: Mapping[str, Any]
    title: str
    valid: Bool[Tensor, "anchors candidates"] | None = None
    draw: Callable[[Sequence[Row], str], dict[str, Figure]] = lambda _rows, _weights: {}
    advice: Advice | None = None

    def extreme_rows(self, shown: int) -> list[Row]:
        """The candidates with the smallest and largest weights of the first anchors.

        InfoNCE and the debiased loss weight all candidates equally; the Bayesian loss at its
        defaults then takes their place. ``down`` and ``up`` hold names of candidates, the smallest
        and the largest weight first, with ``_weights`` and ``_false``, whether each is a false
        negative; None without labels.
        """
        scored = self.batches[0]
        valid = scored.valid if self.valid is None else self.valid
        if not scored.tells_apart:
            scored = replace(scored, objective=BayesianContrastiveLoss().objective(1.0))
        weights = candidate_weights(scored)
        chosen = torch.arange(len(self.anchors), device=valid.device)
        count = min(shown, int(valid[chosen].sum(dim=1).min()))
        # Among equal weights the higher logit comes first, since it contributes more.
        by_logit = scored.unlabeled[chosen].argsort(dim=1, descending=True, stable=True)
        ends = []
        for keys in (weights, -weights):
            keys = keys[chosen].masked_fill(~valid[chosen], torch.inf).gather(1, by_logit)
            ends.append(by_logit.gather(1, keys.argsort(dim=1, stable=True)[:, :count]))
        truth = scored.false_negative
        rows = []
        for anchor, name in enumerate(self.anchors):
            row = dict(name)
            for end, columns in (("down", ends[0][anchor]), ("up", ends[1][anchor])):
                row[end] = self.names(columns.cpu())
                row[f"{end}_weights"] = weights[anchor, columns].tolist()
                row[f"{end}_false"] = None if truth is None else truth[anchor, columns].tolist()
            rows.append(row)
        return rows


@dataclass(frozen=True)
class Inspection:
    """The figures of an inspection, what ``inspection.json`` holds, and the files written."""

    diagnosis: Diagnosis
    report: dict[str, Any]
    files: tuple[Path, ...]
    advice: Advice | None = None


def inspect_run(
    run_type: type[AnyRun],
    path: Path,
    sampler: Callable[[AnyRun, int], Sample],
    *,
    shown: int,
    **given: Any,
) -> Inspection:
    """Inspect a run with its saved weights, finished or not; write figures to its folder.

    The ``sampler`` gets the run and how many epochs its weights saw; the run is reopened with what
    is ``given``. ``inspection.json`` and a figure of the weights are written, with labels one of
    the posterior's calibration, and those that the sample draws.
    """
    folder, run, epochs = run_type.reopen(path, **given)
    run.model.to(run.device)
    sample = sampler(run, epochs)
    rows = sample.extreme_rows(shown)
    diagnosis, settings = diagnose(sample.batches), run.settings.as_config()
    tells_apart = sample.batches[0].tells_apart
    advice = {} if sample.advice is None else {"advice": sample.advice.figures()}
    report = {
        "epochs": epochs,
        "of_epochs": run.settings.epochs,
        **sample.about,
        **advice,
        "settings": settings,
        **diagnosis.figures(),
        "latent_classes": _latent_classes(run.model.loss),
        "candidates": {
            "weighed_by": settings["loss"] if tells_apart else "the Bayesian loss at its defaults",
            "anchors": rows,
        },
        **provenance(),
    }
    figures = sample.draw(rows, "its own weights" if tells_apart else "Bayesian weights")
    figures["weights"] = weights_figure(diagnosis, title=sample.title)
    if diagnosis.posteriors:
        figures["reliability"] = reliability_figure(diagnosis, title=sample.title)
    files = [folder.write_result(report, name="inspection.json")]
    for name, figure in figures.items():
        files.append(folder.path / f"inspection-{name}.png")
        save_figure(figure, files[-1])
    return Inspection(diagnosis, report, tuple(files), sample.advice)


def _latent_classes(loss: Any) -> dict[str, Any] | None:
    """What a loss with latent classes knows, as plain numbers; None for other losses."""
    if not isinstance(loss, LatentClassContrastiveLoss):
        return None
    memory = loss.memory
    sizes = () if memory.classes is None else memory.classes.sizes
    agreements, trusts = (
        [none] * len(sizes) if values is None else values.tolist()
        for values, none in ((memory.agreement, None), (memory.trust_by_mixture, 0.0))
    )
    mixtures = zip(sizes, agreements, trusts, strict=True)
    return {
        "fitted": memory.classes is not None,
        "remembered": min(memory.num_seen, memory.size),
        "memory_size": memory.size,
        "trust": loss.trust,
        "threshold": loss.threshold,
        "mixtures": [
            {"components": size, "agreement": agreement, "trust": trust}
            for size, agreement, trust in mixtures
        ],
    }

"""``bayescl inspect`` of any run: from scored batches to figures and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bayescl.axes import Bool, Int, Tensor
from bayescl.diagnostics import (
    Diagnosis,
    ScoredCandidates,
    candidate_weights,
    diagnose,
    extreme_candidates,
    reliability_figure,
    weights_figure,
)
from bayescl.losses import BayesianContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._files import save_figure
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.provenance import provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayescl_lab.runs.run import TrainedRun

Row = dict[str, Any]
"""An anchor with the candidates of least ("down") and most weight ("up"), as plain values."""


@dataclass(frozen=True)
class Inspection:
    """The figures of an inspection, what ``inspection.json`` holds, and the files written."""

    diagnosis: Diagnosis
    report: dict[str, Any]
    files: tuple[Path, ...]


def extreme_rows(
    scored: ScoredCandidates,
    valid: Bool[Tensor, "anchors candidates"],
    anchors: Sequence[Row],
    *,
    shown: int,
    names: Callable[[Int[Tensor, " shown"]], list[Any]],
) -> list[Row]:
    """The candidates with the smallest and largest weights of the first anchors.

    InfoNCE and the debiased loss weight all candidates equally; the Bayesian loss at its defaults
    then takes their place. Rows begin with what ``anchors`` say, and ``names`` gives what to call
    the candidates of some columns: ``down`` and ``up``, the smallest and the largest weight first,
    with ``_weights`` and ``_false``, whether each is a false negative; None without labels.
    """
    if not scored.tells_apart:
        scored = replace(scored, objective=BayesianContrastiveLoss().objective(1.0))
    weights = candidate_weights(scored)
    chosen = torch.arange(len(anchors), device=valid.device)
    count = min(shown, int(valid[chosen].sum(dim=1).min()))
    ends = extreme_candidates(weights, scored.unlabeled, valid, anchors=chosen, count=count)
    truth = scored.false_negative
    rows = []
    for anchor, name in enumerate(anchors):
        row = dict(name)
        for end, columns in (("down", ends[0][anchor]), ("up", ends[1][anchor])):
            row[end] = names(columns.cpu())
            row[f"{end}_weights"] = weights[anchor, columns].tolist()
            row[f"{end}_false"] = None if truth is None else truth[anchor, columns].tolist()
        rows.append(row)
    return rows


def write_inspection(
    folder: RunFolder,
    run: TrainedRun[Any],
    epochs: int,
    batches: Sequence[ScoredCandidates],
    rows: Sequence[Row],
    *,
    about: Mapping[str, Any],
    title: str,
    **figures: Figure,
) -> Inspection:
    """Diagnose batches as a run's loss scores them; write ``inspection.json`` and figures.

    ``rows`` come from :func:`extreme_rows`, ``epochs`` is how many the weights saw, ``about`` is
    further content.
    """
    diagnosis, settings = diagnose(batches), run.settings.as_config()
    tells_apart = batches[0].tells_apart
    report = {
        "epochs": epochs,
        "of_epochs": run.settings.epochs,
        **about,
        "settings": settings,
        **diagnosis.figures(),
        "latent_classes": _latent_classes(run.model.loss),
        "candidates": {
            "weighed_by": settings["loss"] if tells_apart else "the Bayesian loss at its defaults",
            "anchors": list(rows),
        },
        **provenance(),
    }
    figures["weights"] = weights_figure(diagnosis, title=title)
    if diagnosis.posteriors:
        figures["reliability"] = reliability_figure(diagnosis, title=title)
    files = [folder.write_result(report, name="inspection.json")]
    for name, figure in figures.items():
        files.append(folder.path / f"inspection-{name}.png")
        save_figure(figure, files[-1])
    return Inspection(diagnosis, report, tuple(files))


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
        "remembered": min(memory.came, memory.size),
        "memory_size": memory.size,
        "trust": loss.trust,
        "threshold": loss.threshold,
        "mixtures": [
            {"components": size, "agreement": agreement, "trust": trust}
            for size, agreement, trust in mixtures
        ],
    }

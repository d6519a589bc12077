"""The result of an inspection of any run, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl.diagnostics import Diagnosis, ScoredCandidates, reliability_figure, weights_figure
from bayescl.losses import BayesianContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._files import save_figure
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.provenance import provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    Attributes:
        diagnosis: the figures.
        report: what ``inspection.json`` holds.
        files: the files written to the run's folder.
    """

    diagnosis: Diagnosis
    report: dict[str, Any]
    files: tuple[Path, ...]


def telling_apart(scored: ScoredCandidates) -> tuple[ScoredCandidates, bool]:
    """The batch under a loss that tells candidates apart, and whether that is the run's own.

    InfoNCE and the debiased loss weight all candidates equally.
    """
    if scored.tells_apart:
        return scored, True
    return replace(scored, objective=BayesianContrastiveLoss().objective(1.0)), False


def weighed_by(loss: str, by_loss: bool) -> str:
    """The name of the loss used by :func:`telling_apart`."""
    return loss if by_loss else "the Bayesian loss at its defaults"


def latent_classes_found(loss: nn.Module) -> dict[str, Any] | None:
    """The findings of a loss with latent classes as plain numbers; None for other losses."""
    if not isinstance(loss, LatentClassContrastiveLoss):
        return None
    memory = loss.memory
    kept = 0 if memory.items is None else len(memory.items)
    found: dict[str, Any] = {"fitted": False, "remembered": kept, "memory_size": memory.size}
    classes, trust, agreement = memory.classes, memory.trust_by_mixture, memory.agreement
    found |= {"trust": loss.trust, "threshold": loss.threshold, "mixtures": []}
    if classes is None:
        return found
    found["fitted"] = True
    for place, size in enumerate(classes.sizes):
        of_views = None if agreement is None else float(agreement[place])
        believed = 0.0 if trust is None else float(trust[place])
        found["mixtures"].append({"components": size, "agreement": of_views, "trust": believed})
    return found


def write_inspection(
    folder: RunFolder,
    diagnosis: Diagnosis,
    report: Mapping[str, Any],
    *,
    title: str,
    further: Mapping[str, Figure] | None = None,
) -> Inspection:
    """Write ``inspection.json`` and the figures of an inspection into a run's folder.

    Args:
        folder: of the run.
        diagnosis: what was found.
        report: content of ``inspection.json`` without its provenance.
        title: title of the figures.
        further: figures by name, besides those of every diagnosis.
    """
    figures = {"weights": weights_figure(diagnosis, title=title)}
    if diagnosis.posteriors:
        figures["reliability"] = reliability_figure(diagnosis, title=title)
    whole = {**report, **provenance()}
    files = [folder.write_result(whole, name="inspection.json")]
    for name, figure in {**figures, **(further or {})}.items():
        files.append(folder.path / f"inspection-{name}.png")
        save_figure(figure, files[-1])
    return Inspection(diagnosis, whole, tuple(files))

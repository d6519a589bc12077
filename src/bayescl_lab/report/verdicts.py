"""What a comparison or a training says, in two or three plain sentences: pure functions of results.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.report.tables import (
    Result,
    counted,
    difference_text,
    paired_differences,
    paragraph,
)
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE

Readings = Sequence[Mapping[str, float]]
"""The rows of ``metrics.csv``, one per epoch."""

_HEADLINES = ("few_label_1", "knn", "linear", "ndcg@20")
"""The measures that a verdict is about; the first that there is."""


def comparison_verdict(result: Result, runs: Iterable[tuple[str, Readings]] = ()) -> list[str]:
    """Say which losses helped, by how much beyond the spread, and what to do next.

    Args:
        result: ``result.json`` of a comparison on images or of recommenders, or a cell of the
            ranking table.
        runs: the loss and the readings of each run.

    Returns:
        Sentences that name every loss. Without InfoNCE, the first loss takes its place.
    """
    losses: Mapping[str, Any] = result.get("summary", result)["losses"]
    base = BASELINE if BASELINE in losses else next(iter(losses))
    if len(losses) == 1:
        return [f"Only {loss_title(base)} was trained: there is nothing to compare it with."]
    paired = paired_differences(result, base)
    if not paired:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    labels = _knows_labels(result.get("settings", {}))
    *findings, advice = _findings(base, paired, in_points="summary" in result)
    sentences = [
        *([paragraph("tuned", result["tuning"])] if result.get("tuning") else []),
        *findings,
        *_trust_sentences(runs, losses, base, labels=labels),
        advice,
    ]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


def _findings(base: str, paired: Mapping[str, Mapping[str, Any]], *, in_points: bool) -> list[str]:
    """What helped, what knowing the labels would give, and last what to do next."""
    title = loss_title(base)
    measures = list(next(iter(paired.values())))
    headline = next((name for name in _HEADLINES if name in measures), measures[0])
    ranked = sorted(paired, key=lambda loss: -paired[loss][headline]["mean"])
    gains = {loss: paired[loss][headline] for loss in ranked}
    seeds = counted(len(gains[ranked[0]]["values"]), "seed")
    oracles = [loss for loss in ranked if loss in LOSSES and LOSSES[loss].needs_labels]
    above, below, level = (
        [loss for loss in ranked if loss not in oracles and gains[loss]["sign"] == sign]
        for sign in (1, -1, 0)
    )

    def with_gains(losses: Iterable[str]) -> str:
        """Losses with their differences on the headline."""
        unit = " points" * in_points
        return ", ".join(
            f"{loss_title(loss)} {difference_text(gains[loss], in_points=in_points)}{unit}"
            for loss in losses
        )

    def with_measures(losses: Iterable[str], sign: int) -> str:
        """Losses with the measures on which they are above or below the baseline."""
        parts = []
        for loss in losses:
            names = [measure_title(name) for name in measures if paired[loss][name]["sign"] == sign]
            parts += [f"{loss_title(loss)} on {', '.join(names)}"] if names else []
        return "; ".join(parts)

    where = f"on {measure_title(headline)}"
    groups = {
        f"above {title}": above,
        f"below {title}": below,
        f"not told apart from {title} by {seeds}": level,
    }
    parts = [f"{words} {where}: {with_gains(losses)}" for words, losses in groups.items() if losses]
    sentences = [f"{'; '.join(parts)}."] if parts else []
    better, worse = with_measures(below + level, 1), with_measures(above, -1)
    sentences += [f"but above {title}: {better}."] if better else []
    sentences += [f"but below {title}: {worse}."] if worse else []
    if oracles:
        oracle = ORACLE if ORACLE in oracles else oracles[0]
        if gains[oracle]["sign"] != 1:
            comment = "that is no certain gain, so false negatives cost little here"
        elif above:
            share = gains[above[0]]["mean"] / gains[oracle]["mean"]
            best = loss_title(above[0])
            comment = f"{best} reaches {share:.0%} of the {loss_title(oracle)}'s gain"
        else:
            comment = "none of that is reached without labels"
        sentences.append(f"knowing the labels, which nobody has: {with_gains(oracles)}; {comment}.")

    if seeds == "1 seed":
        advice = "repeat with --seeds 4; one seed shows no spread, so nothing is certain."
    elif above:
        advice = f"train with --loss {above[0]}."
    elif better:
        advice = f"keep {title}, unless those other measures matter more to you."
    elif oracles and not any(gains[loss]["sign"] for loss in oracles):
        advice = f"keep {title}: there is nothing here for another loss to gain."
    else:
        advice = (
            f"keep {title}: another temperature may change more than another loss, and more seeds "
            "would show smaller differences."
        )
    return [*sentences, f"next: {advice}"]


def _trust_sentences(
    runs: Iterable[tuple[str, Readings]], losses: Mapping[str, Any], base: str, *, labels: bool
) -> list[str]:
    """What became of the trust of losses that have one, if it stayed 0."""
    highest: dict[str, list[float]] = {}
    for name, rows in runs:
        trust = [row["trust"] for row in rows if "trust" in row]
        if trust and name in losses:
            highest.setdefault(name, []).append(max(trust))
    seconds = {name: losses[name]["seconds_per_epoch"]["mean"] for name in (base, *highest)}
    return [
        paragraph("untrusted", name, base, seconds[name] / seconds[base], values, labels)
        for name, values in highest.items()
        if min(values) == 0
    ]


def training_verdict(settings: Mapping[str, Any], rows: Readings) -> list[str]:
    """Say how far a run's loss came to trust its latent classes, and what speaks against BPR.

    Example:
        >>> rows = [{"epoch": 1, "trust": 0.0}, {"epoch": 2, "trust": 0.75}]
        >>> training_verdict({"loss": "latent"}, rows)
        ['Trust in the latent classes: 0.75 at the end, above 0 from epoch 2 of 2 on.']
        >>> training_verdict({"loss": "info_nce"}, [{"epoch": 1, "loss": 4.0}])
        []
    """
    loss = settings.get("loss")  # none of a baseline
    if loss == "bpr":
        return ["BPR was below InfoNCE on every data set measured: compare with --loss info_nce."]
    seen = [row for row in rows if "trust" in row]
    if not seen:
        return []
    first = next((row for row in seen if row["trust"] > 0), None)
    return [paragraph("trust_in_training", loss, first, seen[-1], _knows_labels(settings))]


def _knows_labels(settings: Mapping[str, Any]) -> bool:
    """Whether the latent-class loss was given labels of some items."""
    return settings.get("labels_per_class") is not None


def runs_below(folder: Path) -> list[tuple[str, Readings]]:
    """The loss and the readings of the run in a folder, or of each run of a comparison."""
    runs: list[tuple[str, Readings]] = []
    for file in sorted([*folder.glob("metrics.csv"), *folder.glob("runs/*/metrics.csv")]):
        rows = RunFolder(file.parent, "").read_metrics()
        if rows and (file.parent / "config.yaml").is_file():
            runs.append((str(RunFolder.find(file.parent).config().get("loss", "")), rows))
    return runs

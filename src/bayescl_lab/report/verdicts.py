"""What a comparison or a training says, in two or three plain sentences: pure functions of results.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from bayescl_lab.report.tables import Result, loss_title, paired_differences, paragraph
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE, SHARE

Metrics = Sequence[Mapping[str, float]]
"""The rows of ``metrics.csv``, one per epoch."""

_HEADLINES = ("few_label_1", "knn", "linear", "ndcg@20")
"""The measures that a verdict is about; the first that there is."""


class NextStep(Enum):
    """What to do after a comparison."""

    MORE_SEEDS = auto()
    TRAIN = auto()
    WEIGH_MEASURES = auto()
    NOTHING_TO_GAIN = auto()
    KEEP = auto()


@dataclass(frozen=True)
class ComparisonFindings:
    """What a comparison shows, paired by seed; a sign counts from two standard errors on.

    Attributes:
        base: the loss that others are compared with.
        headline: the measure that is judged first.
        in_points: whether measures are accuracies.
        num_seeds: seeds of each loss.
        gains: each loss's difference on the headline, the largest first.
        above, below, level: losses by the sign of their gain; no oracles.
        better, worse: measures on which losses differ from what the headline says of them.
        oracles: the losses that know the labels.
        oracle: the one of them that others are measured by, if any.
        oracle_share: share of the oracle's gain that the best loss reaches, if both have a gain.
        share: the ``positive_share`` of the best loss, on images.
        next_step: what to do.
    """

    base: str
    headline: str
    in_points: bool
    num_seeds: int
    gains: Mapping[str, Mapping[str, Any]]
    above: Sequence[str]
    below: Sequence[str]
    level: Sequence[str]
    better: Mapping[str, Sequence[str]]
    worse: Mapping[str, Sequence[str]]
    oracles: Sequence[str]
    oracle: str | None
    oracle_share: float | None
    share: float | None
    next_step: NextStep


def comparison_findings(result: Result) -> ComparisonFindings | None:
    """What a comparison shows; None without labels, or with one loss alone."""
    base = _base(result)
    paired = paired_differences(result, base)
    if not paired:
        return None
    measures = list(next(iter(paired.values())))
    headline = next((name for name in _HEADLINES if name in measures), measures[0])
    ranked = sorted(paired, key=lambda loss: -paired[loss][headline]["mean"])
    gains = {loss: paired[loss][headline] for loss in ranked}
    num_seeds = len(gains[ranked[0]]["values"])
    oracles = [loss for loss in ranked if loss in LOSSES and LOSSES[loss].needs_labels]
    above, below, level = (
        [loss for loss in ranked if loss not in oracles and gains[loss]["sign"] == sign]
        for sign in (1, -1, 0)
    )

    def elsewhere(losses: Iterable[str], sign: int) -> dict[str, list[str]]:
        signs = {loss: [m for m in measures if paired[loss][m]["sign"] == sign] for loss in losses}
        return {loss: names for loss, names in signs.items() if names}

    better, worse = elsewhere(below + level, 1), elsewhere(above, -1)
    oracle = ORACLE if ORACLE in oracles else next(iter(oracles), None)
    share = None
    if oracle is not None and above and gains[oracle]["sign"] == 1:
        share = gains[above[0]]["mean"] / gains[oracle]["mean"]
    if num_seeds == 1:
        step = NextStep.MORE_SEEDS
    elif above:
        step = NextStep.TRAIN
    elif better:
        step = NextStep.WEIGH_MEASURES
    elif oracles and not any(gains[loss]["sign"] for loss in oracles):
        step = NextStep.NOTHING_TO_GAIN
    else:
        step = NextStep.KEEP
    values = (
        result.get("settings", {}).get("hyperparameters", {}).get(above[0] if above else base, {})
    )
    return ComparisonFindings(
        *(base, headline, "summary" in result, num_seeds, gains, above, below, level),
        *(better, worse, oracles, oracle, share, values.get(SHARE), step),
    )


def _base(result: Result) -> str:
    losses = result.get("summary", result)["losses"]
    return BASELINE if BASELINE in losses else str(next(iter(losses)))


def comparison_verdict(result: Result) -> list[str]:
    """Say which losses helped, by how much beyond the spread, and what to do next.

    Args:
        result: ``result.json`` of a comparison on images or of recommenders, or a cell of the
            ranking table.

    Returns:
        Sentences that name every loss. Without InfoNCE, the first loss takes its place.
    """
    losses: Mapping[str, Any] = result.get("summary", result)["losses"]
    base = _base(result)
    if len(losses) == 1:
        return [f"Only {loss_title(base)} was trained: there is nothing to compare it with."]
    found = comparison_findings(result)
    if found is None:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    sentences = [
        paragraph("tuned", result["tuning"]) if result.get("tuning") else "",
        paragraph("standing", found),
        paragraph("otherwise", found, "above", found.better),
        paragraph("otherwise", found, "below", found.worse),
        paragraph("oracles", found),
        paragraph("next_step", found),
    ]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences if sentence]


def training_verdict(settings: Mapping[str, Any]) -> list[str]:
    """Say what speaks against a run's loss.

    Example:
        >>> training_verdict({"loss": "info_nce"})
        []
    """
    if settings.get("loss") == "bpr":  # a baseline has no loss
        return ["BPR was below InfoNCE on every data set measured: compare with --loss info_nce."]
    return []


def runs_below(folder: Path) -> list[tuple[str, Metrics]]:
    """The loss and the metrics of the run in a folder, or of each run of a comparison."""
    runs: list[tuple[str, Metrics]] = []
    for file in sorted([*folder.glob("metrics.csv"), *folder.glob("runs/*/metrics.csv")]):
        rows = RunFolder(file.parent, "").read_metrics()
        if rows and (file.parent / "config.yaml").is_file():
            runs.append((str(RunFolder.find(file.parent).config().get("loss", "")), rows))
    return runs

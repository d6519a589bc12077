"""What a comparison or a training says, in two or three plain sentences: pure functions of results.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from bayescl_lab.compare.result import Result, needs_labels
from bayescl_lab.compare.summary import Score
from bayescl_lab.report.tables import loss_title, paragraph
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import ORACLE, SHARE

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
    num_seeds: int
    gains: Mapping[str, Score]
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
    base = result.base
    paired = result.differences(base)
    if not paired:
        return None
    measures = list(next(iter(paired.values())))
    headline = next((name for name in _HEADLINES if name in measures), measures[0])
    ranked = sorted(paired, key=lambda name: -paired[name][headline].mean)
    gains = {name: paired[name][headline] for name in ranked}
    oracles = [name for name in ranked if needs_labels(name)]
    above, below, level = (
        [name for name in ranked if name not in oracles and gains[name].sign == sign]
        for sign in (1, -1, 0)
    )

    def elsewhere(names: Iterable[str], sign: int) -> dict[str, list[str]]:
        signs = {name: [m for m in measures if paired[name][m].sign == sign] for name in names}
        return {name: some for name, some in signs.items() if some}

    better, worse = elsewhere(below + level, 1), elsewhere(above, -1)
    oracle = ORACLE if ORACLE in oracles else next(iter(oracles), None)
    share = None
    if oracle is not None and above and gains[oracle].sign == 1:
        share = gains[above[0]].mean / gains[oracle].mean
    if result.seeds == 1:
        step = NextStep.MORE_SEEDS
    elif above:
        step = NextStep.TRAIN
    elif better:
        step = NextStep.WEIGH_MEASURES
    elif oracles and not any(gains[name].sign for name in oracles):
        step = NextStep.NOTHING_TO_GAIN
    else:
        step = NextStep.KEEP
    best = result.rows[above[0] if above else base]
    return ComparisonFindings(
        *(base, headline, result.seeds, gains, above, below, level),
        *(better, worse, oracles, oracle, share, best.settings.get(SHARE), step),
    )


def comparison_verdict(result: Result) -> list[str]:
    """Say which losses helped, by how much beyond the spread, and what to do next.

    Args:
        result: a comparison on images or of recommenders, or a cell of the ranking table.

    Returns:
        Sentences that name every loss. Without InfoNCE, the first loss takes its place.
    """
    if len(result.rows) == 1:
        return [f"Only {loss_title(result.base)} was trained: there is nothing to compare it with."]
    found = comparison_findings(result)
    if found is None:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    sentences = [
        paragraph("tuned", result) if result.criterion else "",
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

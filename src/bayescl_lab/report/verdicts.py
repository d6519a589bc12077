"""Conclusions from comparisons and training runs in a few sentences.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.compare.result import Result, is_percent, needs_labels
from bayescl_lab.compare.summary import Score
from bayescl_lab.report.tables import (
    counted,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
)
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import ORACLE, SHARE, TEACHER

Metrics = Sequence[Mapping[str, float]]
"""Rows of ``metrics.csv``, one per epoch."""

_HEADLINES = ("few_label_1", "knn", "linear", "ndcg@20")
"""Measures for the verdict. The first available entry is used."""


def comparison_verdict(result: Result) -> list[str]:
    """Summarize which losses are better than InfoNCE, and recommend a next step.

    Args:
        result: Comparison on images or of recommenders, or a cell of the ranking table.

    Returns:
        Sentences that name every loss. Without InfoNCE, losses are compared with the first one.
    """
    base = loss_title(result.base)
    if len(result.rows) == 1:
        return [f"Only {base} was trained: there is nothing to compare it with."]
    paired = result.differences(result.base)
    if not paired:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    headline = next((one for one in _HEADLINES if one in result.measures), result.measures[0])
    gains = {name: scores[headline] for name, scores in paired.items()}
    ranked = sorted(gains, key=lambda name: -gains[name].mean)
    oracles = [name for name in ranked if needs_labels(name)]
    above, below, level = (
        [name for name in ranked if name not in oracles and gains[name].sign == sign]
        for sign in (1, -1, 0)
    )

    def said(names: Iterable[str]) -> str:
        points = " points" if is_percent(headline) else ""
        texts = {name: difference_text(gains[name], headline) for name in names}
        return ", ".join(f"{loss_title(name)} {text}{points}" for name, text in texts.items())

    def elsewhere(names: Iterable[str], sign: int) -> str:
        found = {
            name: [measure_title(one) for one, score in paired[name].items() if score.sign == sign]
            for name in names
        }
        some = [f"{loss_title(name)} on {', '.join(on)}" for name, on in found.items() if on]
        return f"but {'above' if sign == 1 else 'below'} {base}: {'; '.join(some)}." if some else ""

    better = elsewhere(below + level, 1)
    seeds = counted(result.seeds, "seed")
    groups = {f"above {base}": above, f"below {base}": below}
    groups[f"not told apart from {base} by {seeds}"] = level
    standing = "; ".join(
        f"{words} on {measure_title(headline)}: {said(names)}"
        for words, names in groups.items()
        if names
    )
    sentences = [
        paragraph("tuned", result) if result.criterion else "",
        f"{standing}." if standing else "",
        better,
        elsewhere(above, -1),
        _of_oracles(oracles, gains, above, said(oracles)),
        f"next: {_next_step(result, oracles, gains, above, is_otherwise=bool(better))}",
    ]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences if sentence]


def _of_oracles(
    oracles: Sequence[str], gains: Mapping[str, Score], above: Sequence[str], said: str
) -> str:
    """Describe the gain with labels, and the share of it that the best loss reaches."""
    if not oracles:
        return ""
    oracle = ORACLE if ORACLE in oracles else oracles[0]
    if gains[oracle].sign != 1:
        reached = "that is not a significant gain, so false negatives cost little here"
    elif above:
        share = gains[above[0]].mean / gains[oracle].mean
        reached = f"{loss_title(above[0])} reaches {share:.0%} of the {loss_title(oracle)}'s gain"
    else:
        reached = "none of that is reached without labels"
    return f"with labels: {said}; {reached}."


def _next_step(
    result: Result,
    oracles: Sequence[str],
    gains: Mapping[str, Score],
    above: Sequence[str],
    *,
    is_otherwise: bool,
) -> str:
    """Return the recommended next step."""
    if result.seeds == 1:
        return "repeat with --seeds 4; one seed shows no spread, so nothing is certain."
    if above:
        share = result.rows[above[0]].settings.get(SHARE)
        option = "" if share is None else f" --positive-share {share:g}"
        return f"train with --loss {above[0].removesuffix(TEACHER)}{option}."
    keep = f"keep {loss_title(result.base)}"
    if is_otherwise:
        return f"{keep}, unless those other measures matter more to you."
    if oracles and not any(gains[name].sign for name in oracles):
        return f"{keep}: there is nothing here for another loss to gain."
    return (
        f"{keep}: another temperature may change more than another loss, and more seeds would show "
        "smaller differences."
    )


def training_verdict(settings: Mapping[str, Any]) -> list[str]:
    """Return a warning if the loss of a run is not recommended.

    Example:
        >>> training_verdict({"loss": "info_nce"})
        []
    """
    if settings.get("loss") == "bpr":  # baselines have no loss
        return ["BPR was below InfoNCE on every data set measured: compare with --loss info_nce."]
    return []


def runs_below(folder: Path) -> list[tuple[str, Metrics]]:
    """Return the loss and the metrics of the run in a folder, or of each run of a comparison."""
    runs: list[tuple[str, Metrics]] = []
    for file in sorted([*folder.glob("metrics.csv"), *folder.glob("runs/*/metrics.csv")]):
        rows = RunFolder(file.parent, "").read_metrics()
        if rows and (file.parent / "config.yaml").is_file():
            runs.append((str(RunFolder.find(file.parent).config().get("loss", "")), rows))
    return runs

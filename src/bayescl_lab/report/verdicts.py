"""Conclusions from comparisons in a few sentences.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayescl_lab.report.tables import (
    counted,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
)
from bayescl_lab.runs.losses import ORACLE, SHARE, TEACHER
from bayescl_lab.runs.result import Result, Score, is_percent, needs_labels

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
        return ["There are no labels for an evaluation, so the losses cannot be compared."]
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
        _of_oracles(oracles, gains, above, said(oracles)),
        f"next: {_next_step(result, above)}",
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


def _next_step(result: Result, above: Sequence[str]) -> str:
    """Return the recommended next step."""
    if result.seeds == 1:
        return "repeat with --seeds 4; one seed shows no spread, so nothing is certain."
    if not above:
        return (
            f"keep {loss_title(result.base)}: another temperature may change more than another "
            "loss, and more seeds would show smaller differences."
        )
    share = result.rows[above[0]].settings.get(SHARE)
    option = "" if share is None else f" --positive-share {share:g}"
    return f"train with --loss {above[0].removesuffix(TEACHER)}{option}."

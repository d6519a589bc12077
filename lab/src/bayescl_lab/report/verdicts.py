"""Conclusions from comparisons in a few sentences.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayescl_lab.report.results import headlines
from bayescl_lab.report.tables import (
    counted,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
)
from bayescl_lab.runs.losses import SHARE
from bayescl_lab.runs.result import Result, is_percent, needs_labels


def comparison_verdict(result: Result) -> list[str]:
    """Summarize which losses are better than InfoNCE, and recommend a next step.

    Args:
        result: Comparison on images or of recommenders.

    Returns:
        Sentences that name every loss. Without InfoNCE, losses are compared with the first one.
    """
    base = loss_title(result.base)
    if len(result.rows) == 1:
        return [f"Only {base} was trained: there is nothing to compare it with."]
    paired = result.differences(result.base)
    if not paired:
        return ["There are no labels for an evaluation, so the losses cannot be compared."]
    measure = headlines(result)[0]
    gains = {name: scores[measure] for name, scores in paired.items()}
    ranked = sorted(gains, key=lambda name: -gains[name].mean)
    above, below, level = (
        [one for one in ranked if gains[one].sign == sign] for sign in (1, -1, 0)
    )

    def said(names: Iterable[str]) -> str:
        points = " points" if is_percent(measure) else ""
        texts = {name: difference_text(gains[name], measure) for name in names}
        return ", ".join(f"{loss_title(name)} {text}{points}" for name, text in texts.items())

    seeds = counted(result.seeds, "seed")
    groups = {f"above {base}": above, f"below {base}": below}
    groups[f"not significantly different from {base} with {seeds}"] = level
    standing = "; ".join(
        f"{words} on {measure_title(measure)}: {said(names)}"
        for words, names in groups.items()
        if names
    )
    sentences = [
        paragraph("tuned", result) if result.criterion else "",
        f"{standing}.",
        f"next: {_next_step(result, [name for name in above if not needs_labels(name)])}",
    ]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences if sentence]


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
    return f"train with --loss {above[0]}{option}."

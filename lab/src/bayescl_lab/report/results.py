"""Titles, tables, Markdown and conclusions of runs and comparisons.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from scipy import stats

from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import (
    FEW_ITEMS,
    ReportTable,
    as_markdown,
    counted,
    data_title,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
    score_text,
)
from bayescl_lab.runs.losses import LOSSES, SHARE, loss_of
from bayescl_lab.runs.result import SPREAD, Result, is_percent

_OF_CLASSES = ("knn_domains", "nmi", "ari", "recall")
_MOST_CLASSES = 10
_ABOUT_CLASSES = (
    "**Domains, clusters and classes, in percent:** k-NN with neighbors from other domains only; "
    "NMI and ARI of k-means with as many clusters as classes, over all items; recall of classes by "
    "the 10 nearest neighbors, and the lowest recall of a class in each run."
)

_HEADLINES = ("few_label_1", "few_label_5", "knn", "linear", "ndcg@20", "recall@20")
"""Measures for figures, differences and verdicts. The first available ones are used."""


def read_results(folder: Path) -> list[Result]:
    """Read the results in the JSON files of a folder."""
    return [one for file in sorted(folder.glob("*.json")) for one in Result.read_all(file)]


def result_title(result: Result) -> str:
    """Return the title of a run or a comparison."""
    if is_run(result):
        return f"{loss_title(*result.rows)} on {data_title(result.data)}"
    if result.encoder not in ENCODERS:
        return f"{len(result.rows)} losses on {data_title(result.data)}"
    return f"{result.data}, {ENCODERS[result.encoder].title}"


def is_run(result: Result) -> bool:
    """Return whether a result is of a single run."""
    return result.seeds == len(result.rows) == 1


def remarks_of(result: Result) -> list[str]:
    """Return remarks and counts of skipped data as sentences."""
    return [*result.remarks, *in_words(result.skipped)]


def headlines(result: Result) -> list[str]:
    """Return two measures for figures. The first is also for differences and verdicts."""
    return [one for one in _HEADLINES if one in result.measures][:2] or result.measures[:1]


def page_measures(result: Result) -> list[str]:
    """Return the measures that fit a page."""
    ranks = ("recall@10", "ndcg@10", "recall@20", "ndcg@20")
    fitting = [one for one in result.measures if is_percent(one) or one in ranks]
    return [one for one in fitting if one not in _OF_CLASSES]


def classes_table(result: Result) -> ReportTable:
    """Return a table of measures of domains, clusters and classes.

    It has the k-NN accuracy with neighbors from other domains, the agreement of clusters with
    classes, and the recall of each class. With more than ten classes, only the lowest recall is
    shown. The table may be empty.
    """
    records = []
    for name, row in result.rows.items():
        shown = [one for one in _OF_CLASSES if one in row.scores]
        many = len(row.recalls) > _MOST_CLASSES
        record = {measure_title(one): score_text(row.scores[one], one, None) for one in shown}
        of_classes = {} if many else {f"recall, {it}": one for it, one in row.recalls.items()}
        record |= {it: f"{100 * one.mean:.0f}" for it, one in of_classes.items()}
        if record:
            records.append({"loss": loss_title(name), **record})
    return ReportTable(records, _ABOUT_CLASSES if records else "")


def scores_table(result: Result, measures: Sequence[str] = ()) -> ReportTable:
    """Return a table with a row per method and baseline, and a column per measure.

    Comparisons have a column of differences to InfoNCE in one measure, paired by seed.
    """
    differences, note, records = result.differences(), "", list[dict[str, str]]()
    images, headline = result.sizes.get(result.part), next(iter(headlines(result)), "")
    for name, row in result.every.items():
        if not row.scores:
            continue
        count = f" ({result.sizes[name]})" if name in result.groups else ""
        record = {"" if result.baselines else "loss": f"{loss_title(name)}{count}"}
        for measure in measures or page_measures(result):
            if measure in row.scores:
                text = score_text(row.scores[measure], measure, images)
                record[measure_title(measure)] = text
        if headline in differences.get(name, {}):
            above = differences[name][headline]
            text = difference_text(above, headline)
            title = f"above InfoNCE, {measure_title(headline)}"
            record[title] = f"**{text}**" if above.sign else text
        records.append(record)
    if differences and result.seeds > 1:
        by_chance = 2 * stats.t.sf(2, result.seeds - 1)
        note = (
            f"Bold differences are at least two standard errors from 0. With {result.seeds} seeds, "
            f"{100 * by_chance:.0f} of 100 are bold by chance alone."
        )
    return ReportTable(records, about(result), note)


def about(result: Result) -> str:
    """Return a sentence with the unit, the part and the spread of the scores in a table."""
    if not all(map(is_percent, result.measures)):
        return paragraph("about_interactions", result)
    items, count = result.sizes.get(result.part), ""
    if items is not None and items < FEW_ITEMS:
        count = f" ({items} items, 95 % intervals in parentheses)"
    spread = "± standard deviation over label draws" if is_run(result) else f"mean ± {SPREAD}"
    return f"**Accuracy on the {result.part} split{count}, in percent,** {spread}."


def section_markdown(title: str, result: Result, *tables: ReportTable) -> str:
    """Format tables of a result as Markdown, with a heading and remarks."""
    remarks = "\n".join(f"- {remark}" for remark in remarks_of(result))
    tuned = paragraph("tuned", result) if result.criterion else ""
    return as_markdown(f"### {title}", *tables, tuned, remarks) + "\n"


def comparison_verdict(result: Result) -> list[str]:
    """Summarize which losses are better than InfoNCE, and recommend a next step.

    Args:
        result: Result of a comparison.

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
        f"next: {_next_step(result, above)}",
    ]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences if sentence]


def _next_step(result: Result, above: Sequence[str]) -> str:
    """Return the recommended next step."""
    above = [name for name in above if not LOSSES[loss_of(name)].needs_labels]
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

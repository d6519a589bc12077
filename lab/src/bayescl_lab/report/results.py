"""Titles, tables and Markdown of runs and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scipy import stats

from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import (
    FEW_IMAGES,
    ReportTable,
    as_markdown,
    data_title,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
    score_text,
)
from bayescl_lab.runs.losses import BASELINE, ORACLE
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
    """Return a table of neighbors in other domains, clusters, and the recall of each class.

    Of more than ten classes, only the lowest recall is shown. The table may be empty.
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
    With an oracle, the last column is the share of its gap that is closed.
    """
    measures, few = measures or page_measures(result), result.few
    differences, note, records = result.differences(), "", list[dict[str, str]]()
    is_whole = {BASELINE, ORACLE} <= result.rows.keys()
    images = result.sizes.get(result.part)
    for name, row in result.every.items():
        if not row.scores:
            continue
        count = f" ({result.sizes[name]})" if name in result.groups else ""
        column = "" if result.baselines else "loss"
        record = {column: f"{loss_title(name)}{count}"}
        for measure in measures:
            if measure in row.scores:
                text = score_text(row.scores[measure], measure, images)
                record[measure_title(measure)] = text
        if differences:
            measure = headlines(result)[0]
            above = differences.get(name, {}).get(measure)
            text = "" if above is None else difference_text(above, measure)
            title = f"above InfoNCE, {measure_title(measure)}"
            record[title] = f"**{text}**" if above is not None and above.sign else text
        if few and is_whole:
            shares = [result.gap_closed(name, measure) for measure in few]
            record[f"oracle gap closed, {' / '.join(map(measure_title, few))}"] = " / ".join(
                "-" if share is None else f"{100 * share:.0f} %" for share in shares
            )
        records.append(record)
    if differences and result.seeds > 1:
        by_chance = 2 * stats.t.sf(2, result.seeds - 1)
        note = (
            f"Bold differences are at least two standard errors from 0. With {result.seeds} seeds, "
            f"chance alone gives one in {100 * by_chance:.0f} of 100 cases."
        )
    return ReportTable(records, about(result), note)


def about(result: Result) -> str:
    """Describe the values in a table."""
    if not all(map(is_percent, result.measures)):
        return paragraph("about_interactions", result)
    images, count = result.sizes.get(result.part), ""
    if images is not None and images < FEW_IMAGES:
        count = f" ({images} images, 95 % intervals in parentheses)"
    if is_run(result):
        return (
            f"**Accuracy on the {result.part} split{count}, in percent,** ± over draws of labels."
        )
    return (
        f"**Accuracy on the {result.part} split{count}, in percent,** mean ± {SPREAD}; and the "
        "share of the oracle's gap closed, (loss - InfoNCE) / (oracle - InfoNCE) of the means."
    )


def results_markdown(results: Sequence[Result]) -> str:
    """Format all results as Markdown, with headings, tables and remarks."""
    return "\n".join(
        section_markdown(
            result_title(result),
            scores_table(result, result.measures if result.baselines else ()),
            result,
            classes_table(result),
        )
        for result in results
    )


def section_markdown(
    title: str, table: ReportTable, result: Result, further: ReportTable | None = None
) -> str:
    """Format the table of a result as Markdown, with a heading and remarks."""
    remarks = "\n".join(f"- {remark}" for remark in remarks_of(result))
    tuned = paragraph("tuned", result) if result.criterion else ""
    return as_markdown(f"### {title}", table, further or "", tuned, remarks) + "\n"

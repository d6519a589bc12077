"""Titles, tables and Markdown of comparisons and of the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scipy import stats

from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PUBLISHED
from bayescl_lab.paper.ranking.printed import PAPER as PRINTED
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import (
    FEW_IMAGES,
    Table,
    as_markdown,
    counted,
    data_title,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
    score_text,
)
from bayescl_lab.runs.losses import BASELINE, ORACLE
from bayescl_lab.runs.result import SECONDS, SPREAD, Printed, Result, Score, is_percent

_HEADLINES = ("few_label_1", "few_label_5", "knn", "linear", "ndcg@20", "recall@20")
"""Measures for figures, differences and verdicts. The first available ones are used."""


def read_results(folder: Path) -> list[Result]:
    """Read the results in the JSON files of a folder."""
    return [one for file in sorted(folder.glob("*.json")) for one in Result.read_all(file)]


def result_title(result: Result) -> str:
    """Return the title of a table, a run or a comparison."""
    if result.title:
        return result.title
    if is_run(result):
        return f"{loss_title(*result.rows)} on {data_title(result.data)}"
    if result.encoder not in ENCODERS:
        return f"{len(result.rows)} losses on {data_title(result.data)}"
    split = ", LightGCN's split" if result.data in PUBLISHED else ""
    return f"{result.data}{split}, {ENCODERS[result.encoder].title}"


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
    return [one for one in result.measures if is_percent(one) or one in ranks]


def printed_figure(result: Result, name: str, measure: str) -> Printed | None:
    """Return the paper's value for a method, if it has this data set and split."""
    place = (result.data.partition(",")[0], result.encoder, name)
    if is_run(result) or result.data in PUBLISHED or place not in PRINTED:
        return result.rows[name].printed.get(measure) if name in result.rows else None
    value = PRINTED[place].get(measure)
    note = "misprint" if (*place, measure) in MISPRINTS else ""
    return None if value is None else Printed(value, note=note)


def scores_table(result: Result, measures: Sequence[str] = ()) -> Table:
    """Return a table with a row per method and baseline, and a column per measure.

    The paper's values are in parentheses, with references ``[1]``, ``[2]``, ... to notes on errors
    in them. Comparisons have a column of differences to InfoNCE in one measure, paired by seed.
    With an oracle, the last column is the share of its gap that is closed.
    """
    measures, few = measures or page_measures(result), result.few
    differences, notes, records = result.differences(), list[str](), list[dict[str, str]]()
    is_whole = {BASELINE, ORACLE} <= result.rows.keys()
    images = result.sizes.get(result.part)
    for name, row in result.every.items():
        if not row.scores:
            continue
        count = f" ({result.sizes[name]})" if name in result.groups else ""
        column = "" if result.baselines else "loss"
        record = dict(row.keys) or {column: f"{loss_title(name)}{count}"}
        for measure in measures:
            if measure not in row.scores:
                continue
            text = score_text(row.scores[measure], measure, images)
            if printed := printed_figure(result, name, measure):
                form = "g" if is_percent(measure) else ".4f"
                shown = Score(printed.value, printed.spread).text(form).removeprefix("0")
                if len(printed.note) > len("misprint"):
                    notes.append(f"[{len(notes) + 1}] {printed.note}.")
                    shown += f" [{len(notes)}]"
                elif printed.note:
                    shown += f", {printed.note}"
                text += f" ({shown})"
            record[measure_title(measure)] = text
        if differences and not row.keys:
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
    for name, published in (PUBLISHED.get(result.data, {}) if result.criterion else {}).items():
        figures = {
            measure_title(one): score_text(Score(value), one) for one, value in published.items()
        }
        records.append({"": f"*published: {name}*", **figures})
    if differences and not result.title and result.seeds > 1:
        by_chance = 2 * stats.t.sf(2, result.seeds - 1)
        notes.append(
            f"Bold differences are at least two standard errors from 0. With {result.seeds} seeds, "
            f"chance alone gives one in {100 * by_chance:.0f} of 100 cases."
        )
    return Table(
        records,
        about(result),
        " ".join(notes),
        numeric=not next(iter(result.rows.values())).keys,
    )


def about(result: Result) -> str:
    """Describe the values in a table."""
    if result.title:
        measures = "Accuracy in percent" if result.measures != [SECONDS] else "Seconds"
        return (
            f"{measures}, mean ± {SPREAD} ({counted(result.seeds, 'seed')}); in parentheses what "
            "the paper prints, if it can be compared."
        )
    if not all(map(is_percent, result.measures)):
        is_printed = any(printed_figure(result, name, "ndcg@20") for name in result.rows)
        return paragraph("about_cell", result, result.data in PUBLISHED, is_printed)
    images, count = result.sizes.get(result.part), ""
    if images is not None and images < FEW_IMAGES:
        count = f" ({images} images, 95 % intervals in parentheses)"
    if is_run(result):
        return f"**Accuracy on the {result.part} part{count}, in percent,** ± over draws of labels."
    return (
        f"**Accuracy on the {result.part} part{count}, in percent,** mean ± {SPREAD}; and the "
        "share of the oracle's gap closed, (loss - InfoNCE) / (oracle - InfoNCE) of the means."
    )


def results_markdown(results: Sequence[Result]) -> str:
    """Format all results as Markdown, with headings, tables and remarks."""
    return "\n".join(
        as_markdown(
            f"### {result_title(result)}",
            scores_table(result, METRICS if result.baselines else ()),
            paragraph("tuned", result) if result.criterion else "",
            "\n".join(f"- {remark}" for remark in remarks_of(result)),
        )
        + "\n"
        for result in results
    )

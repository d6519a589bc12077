"""Titles, tables and Markdown of comparisons and of the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.compare.result import RESULT_FILES, SECONDS, Printed, Result, is_percent
from bayescl_lab.compare.summary import SPREAD, Score
from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PUBLISHED
from bayescl_lab.paper.ranking.printed import PAPER as PRINTED
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.report.runs import FEW_IMAGES, accuracy_interval
from bayescl_lab.report.tables import (
    Table,
    as_markdown,
    counted,
    data_title,
    difference_table,
    difference_text,
    loss_title,
    measure_title,
    paragraph,
    score_text,
)
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import BASELINE, ORACLE, ranking_loss

ORDER = ("ml-100k", "ml-1m", "yahoo-r3", "yelp2018", "gowalla")
"""Data sets of the ranking table in the paper's order, before other data sets."""

_SETTINGS = ("temperature", "tau_plus", "alpha", "beta", "concentration", "attraction")
_SHARED = ("dim", "layers", "score", "batch_size", "candidates", "lr", "schedule", "weight_decay")


def read_results(folder: Path) -> list[Result]:
    """Read the results in a folder, in the order of the table."""
    files = [file for file in sorted(folder.glob("*.json")) if file.name not in RESULT_FILES]
    results = [one for file in files for one in Result.read_all(read_json(file))]

    def place(result: Result) -> tuple[int, str, bool, str]:
        data = result.data.partition(",")[0]
        number = ORDER.index(data) if data in ORDER else len(ORDER)
        return number, result.data, result.encoder != "mf", result.encoder

    return sorted(results, key=place)


def result_title(result: Result) -> str:
    """Return the title of a table of the paper, or the data set with encoder and split."""
    if result.title:
        return result.title
    if result.encoder not in ENCODERS:
        return f"{len(result.rows)} losses on {data_title(result.data)}"
    split = ", LightGCN's split" if result.data in PUBLISHED else ""
    return f"{result.data}{split}, {ENCODERS[result.encoder].title}"


def headlines(result: Result) -> list[str]:
    """Return the two measures of figures and differences."""
    return (
        result.few[:2] or result.few or [one for one in result.measures if one[-3:] == "@20"][1:3]
    )


def page_measures(result: Result) -> list[str]:
    """Return the measures that fit a page."""
    ranks = ("recall@10", "ndcg@10", "recall@20", "ndcg@20")
    return [one for one in result.measures if is_percent(one) or one in ranks]


def printed_figure(result: Result, name: str, measure: str) -> Printed | None:
    """Return the paper's value for a method, if it has this data set and split."""
    place = (result.data.partition(",")[0], result.encoder, name)
    if result.data in PUBLISHED or place not in PRINTED:
        return result.rows[name].printed.get(measure) if name in result.rows else None
    value = PRINTED[place].get(measure)
    note = "misprint" if (*place, measure) in MISPRINTS else ""
    return None if value is None else Printed(value, note=note)


def scores_table(result: Result, measures: Sequence[str] = ()) -> Table:
    """Return a table with a row per method and baseline, and a column per measure.

    The paper's values are in parentheses, with references ``[1]``, ``[2]``, ... to notes on errors
    in them. With an oracle, the last column is the share of its gap that is closed.
    """
    measures, few = measures or page_measures(result), result.few
    differences, notes, records = result.differences(), list[str](), list[dict[str, str]]()
    is_whole = {BASELINE, ORACLE} <= result.rows.keys()
    for name, row in result.every.items():
        record = dict(row.keys) or {"" if result.baselines else "loss": loss_title(name)}
        for measure in measures:
            if measure not in row.scores:
                continue
            text = score_text(row.scores[measure], measure)
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
        if few and not row.keys:
            above = differences.get(name, {}).get(few[0])
            text = "" if above is None else difference_text(above, few[0])
            record[f"above InfoNCE, {measure_title(few[0])}"] = text
        if few and is_whole:
            shares = [result.gap_closed(name, measure) for measure in few]
            record[f"oracle gap closed, {' / '.join(map(measure_title, few))}"] = " / ".join(
                "-" if share is None else f"{100 * share:.0f} %" for share in shares
            )
        records.append(record)
    for name, published in PUBLISHED.get(result.data, {}).items():
        figures = {
            measure_title(one): score_text(Score(value), one) for one, value in published.items()
        }
        records.append({"": f"*published: {name}*", **figures})
    return Table(
        records,
        about(result),
        " ".join(filter(None, [against_paper(result), *notes])),
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
    if result.baselines:
        is_printed = any(printed_figure(result, name, "ndcg@20") for name in result.rows)
        return paragraph("about_cell", result, result.data in PUBLISHED, is_printed)
    images, count = result.sizes.get(result.part), ""
    if images is not None and images < FEW_IMAGES:
        low, high = accuracy_interval(0.5, images)
        count = f" ({images} images: 50 % means {100 * low:.0f} to {100 * high:.0f} %)"
    return (
        f"**Accuracy on the {result.part} part{count}, in percent,** mean ± {SPREAD}; and the "
        "share of the oracle's gap closed, (loss - InfoNCE) / (oracle - InfoNCE) of the means."
    )


def against_paper(result: Result) -> str:
    """Compare a cell of the ranking table with the paper in one sentence; may be empty.

    Misprints and missing figures are left out.
    """
    gaps = {
        f"{name} on {metric}": row.scores[metric].mean - printed.value
        for name, row in result.rows.items()
        for metric in METRICS
        if metric in row.scores
        and (printed := printed_figure(result, name, metric)) is not None
        and not printed.note
    }
    if not gaps:
        return ""
    below = [f"{place} ({gap:+.4f})" for place, gap in gaps.items() if gap < 0]
    return (
        f"{len(gaps) - len(below)} of {len(gaps)} figures are at or above what the paper prints "
        f"for the same loss{'; below it are ' * bool(below)}{', '.join(below)}."
    )


def settings_table(result: Result) -> Table:
    """Return a table of hyper-parameters, epochs, cost and tuning budget of every loss."""
    records = []
    counts = {row.settings.get("candidates") for row in result.rows.values()}
    varying = ("candidates",) if len(counts) > 1 else ()
    for name, row in result.rows.items():
        record = {"": loss_title(name)}
        if row.tuning:
            record["chosen of"] = str(len(row.tuning["scores"]))
        for setting in (*_SETTINGS, *varying, "propagate", "item_norm_exponent"):
            value = row.settings.get(setting, "")
            if value is None:  # the prior's default
                share = ranking_loss(name).density_share
                value = "density" if share == 1 else f"{share:g} density"
            record[setting] = value if isinstance(value, str) else f"{value:g}"
        record["epochs"] = str(row.epochs)
        record["s/epoch"] = "" if row.seconds is None else f"{row.seconds.mean:.1f}"
        records.append(record)
    settings = next(iter(result.rows.values())).settings
    own = ENCODERS[result.encoder].own_settings
    names = [name for name in _SHARED if name != "layers" or name in own]
    given = [name for name in names if settings.get(name) is not None and name not in varying]
    return Table(records, paragraph("shared_settings", settings, given))


def result_tables(result: Result, measures: Sequence[str] = ()) -> list[Table]:
    """Return tables of scores, differences to InfoNCE and settings, without empty tables."""
    tables = [scores_table(result, measures)]
    if result.title:
        return tables
    tables.append(difference_table(result, headlines(result) if result.baselines else ()))
    return [*tables, settings_table(result)] if result.baselines else tables


def results_markdown(results: Sequence[Result]) -> str:
    """Format all results as Markdown, with headings, tables and remarks."""
    return "\n".join(
        as_markdown(
            f"### {result_title(result)}",
            *result_tables(result, METRICS if result.baselines else ()),
            "\n".join(f"- {remark}" for remark in result.remarks),
        )
        + "\n"
        for result in results
    )


def origin_text(origin: Mapping[str, Any]) -> str:
    """Return command, commit and machine as text."""
    hardware = origin["hardware"]
    machine = hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"
    return (
        f"`{origin['command']}`, commit {origin.get('commit', 'unknown')}, on {machine}; "
        f"torch {origin['versions']['torch']}."
    )

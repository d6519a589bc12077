"""Cells of the ranking table: our values, the paper's, baselines, and differences to InfoNCE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.compare.result import RESULT_FILES, Result
from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PUBLISHED
from bayescl_lab.paper.ranking.printed import PAPER as PRINTED
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import (
    Table,
    as_markdown,
    counted,
    difference_table,
    loss_title,
    measure_title,
    paragraph,
    score_text,
)
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import ranking_loss

ORDER = ("ml-100k", "ml-1m", "yahoo-r3", "yelp2018", "gowalla")
"""Data sets in the paper's order; others follow."""

_SETTINGS = ("temperature", "tau_plus", "alpha", "beta", "concentration", "attraction")
MEASURES = ("recall@20", "ndcg@20")
"""The metrics of figures and of differences to InfoNCE."""

PAGE_METRICS = ("recall@10", "ndcg@10", "recall@20", "ndcg@20")
"""The metrics that fit a page; the Markdown table has all."""


def read_cells(folder: Path) -> list[Result]:
    """The cells in a folder, in the order of the table."""
    files = [file for file in sorted(folder.glob("*.json")) if file.name not in RESULT_FILES]
    cells = [cell for file in files for cell in Result.read_all(read_json(file))]

    def place(cell: Result) -> tuple[int, str, bool, str]:
        data = data_name(cell)
        number = ORDER.index(data) if data in ORDER else len(ORDER)
        return number, cell.data, cell.encoder != "mf", cell.encoder

    return sorted(cells, key=place)


def tables_markdown(cells: Sequence[Result]) -> str:
    """Every cell with a heading, its figures and their cost."""
    return "\n".join(f"### {cell_title(cell)}\n\n{cell_markdown(cell)}\n" for cell in cells)


def cell_markdown(cell: Result) -> str:
    """The tables of a cell, with notes."""
    return as_markdown(*cell_tables(cell, METRICS))


def cell_tables(cell: Result, metrics: Sequence[str] = PAGE_METRICS) -> list[Table]:
    """Figures, differences to InfoNCE and settings, each with its notes."""
    return [figures_table(cell, metrics), difference_table(cell, MEASURES), _settings_table(cell)]


def cell_title(cell: Result) -> str:
    """Data set, encoder and split of a cell."""
    split = ", LightGCN's split" if cell.data in PUBLISHED else ""
    encoder = ENCODERS.get(cell.encoder)
    return f"{cell.data}{split}, {cell.encoder if encoder is None else encoder.title}"


def data_name(cell: Result) -> str:
    """The data set's name, without its split."""
    return cell.data.partition(",")[0]


def printed_figure(cell: Result, loss: str, metric: str) -> float | None:
    """The paper's figure for such a split, if any."""
    if cell.data in PUBLISHED:
        return None
    return PRINTED.get((data_name(cell), cell.encoder, loss), {}).get(metric)


def _is_misprint(cell: Result, loss: str, metric: str) -> bool:
    return (data_name(cell), cell.encoder, loss, metric) in MISPRINTS


def note(cell: Result) -> str:
    """The note on the figures of a cell."""
    is_printed = any(printed_figure(cell, loss, "ndcg@20") for loss in cell.rows)
    return paragraph("about_cell", cell, cell.data in PUBLISHED, is_printed)


def metrics_table(metrics: Mapping[str, float]) -> Table:
    """All metrics of one recommender: a row per metric, a column per list length."""
    records: dict[str, dict[str, str]] = {}
    for name, value in metrics.items():
        metric, _, length = name.partition("@")
        record = records.setdefault(metric, {"": metric.replace("_", " ")})
        record[f"@{length}"] = f"{value:.4f}"
    return Table(list(records.values()))


def figures_table(cell: Result, metrics: Sequence[str] = PAGE_METRICS) -> Table:
    """One row per loss and baseline, one column per metric; published rows at the end."""
    records = []
    for name, row in cell.every.items():
        record = {"": loss_title(name)}
        for metric in metrics:
            if metric in row.scores:
                text = score_text(row.scores[metric], metric)
                printed = printed_figure(cell, name, metric)
                if printed is not None:
                    text += f" ({printed:.4f}{', misprint' * _is_misprint(cell, name, metric)})"
                record[measure_title(metric)] = _plain(text)
        records.append(record)
    for name, published in PUBLISHED.get(cell.data, {}).items():
        figures = {
            measure_title(metric): _plain(f"{published[metric]:.4f}") for metric in published
        }
        records.append({"": f"*published: {name}*", **figures})
    return Table(records, note(cell), against_paper(cell))


def _settings_table(cell: Result) -> Table:
    """The hyper-parameters, epochs and cost of every loss, and the number of settings tried."""
    records = []
    for loss, row in cell.rows.items():
        record = {"": loss_title(loss)}
        if row.tuning:
            record["chosen of"] = str(len(row.tuning["scores"]))
        for name in (*_SETTINGS, "propagate", "item_norm_exponent"):
            value = row.settings.get(name, "")
            if value is None:  # the prior's default
                share = ranking_loss(loss).density_share
                value = "density" if share == 1 else f"{share:g} density"
            record[name] = value if isinstance(value, str) else f"{value:g}"
        record["epochs"] = str(row.epochs)
        record["s/epoch"] = "" if row.seconds is None else f"{row.seconds.mean:.1f}"
        records.append(record)
    settings = next(iter(cell.rows.values())).settings
    own = ENCODERS[settings["encoder"]].own_settings
    names = ("dim", *own, "score", "batch_size", "candidates", "lr", "schedule", "weight_decay")
    given = [name for name in names if settings[name] is not None]
    return Table(records, paragraph("shared_settings", settings, given))


def _plain(text: str) -> str:
    """Figures without the zero before the point."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def against_paper(cell: Result) -> str:
    """One sentence that compares our rows with the paper's; empty if there are none.

    Misprints and missing figures are left out.
    """
    gaps = {
        f"{loss} on {metric}": row.scores[metric].mean - printed
        for loss, row in cell.rows.items()
        for metric in METRICS
        if (printed := printed_figure(cell, loss, metric)) is not None
        and not _is_misprint(cell, loss, metric)
    }
    if not gaps:
        return ""
    below = [f"{place} ({gap:+.4f})" for place, gap in gaps.items() if gap < 0]
    return (
        f"{len(gaps) - len(below)} of {len(gaps)} figures are at or above what the paper prints "
        f"for the same loss{'; below it are ' * bool(below)}{', '.join(below)}."
    )


def data_sentences(result: Mapping[str, Any]) -> list[str]:
    """How many users were evaluated, known and unknown to training, and what reading left out.

    ``result`` is ``result.json`` or ``evaluation.json`` of a recommender.
    """
    if not result["metrics"]:
        return [
            "all data were trained on: nothing is left to evaluate",
            *in_words(result.get("report", {})),
        ]
    left_out, lines = result.get("users_left_out"), []
    nothing = f"; {counted(left_out, 'user')} without items to find left out" if left_out else ""
    lines.append(f"{counted(result.get('users', 0), 'user')} evaluated{nothing}")
    for group, what in (
        ("known_users", "known to training"),
        ("unknown_users", "unknown to training, who get popular items"),
    ):
        if group in result:
            metrics = result[group]["metrics"]
            figures = [f"{measure_title(name)} {metrics[name]:.4f}" for name in MEASURES]
            users = counted(result[group]["users"], "user")
            lines.append(f"of them {users} {what}: {', '.join(figures)}")
    return [*lines, *in_words(result.get("report", {}))]


def baseline_sentences(result: Mapping[str, Any]) -> list[str]:
    """The baselines' results on the same parts of the data, at the longest list.

    ``result`` is ``result.json`` or ``evaluation.json`` of a recommender.
    """
    baselines = result.get("baselines", {})
    return [paragraph("baseline", name, baseline) for name, baseline in baselines.items()]

"""Cells of the ranking table: our values, the paper's, baselines, and differences to InfoNCE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PUBLISHED
from bayescl_lab.paper.ranking.printed import PAPER as PRINTED
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.report.tables import Table, difference_table, mean_text
from bayescl_lab.report.titles import encoder_title, loss_title, measure_title
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import RankingLoss
from bayescl_lab.runs.ranking.settings import PAPER

Cell = Mapping[str, Any]
"""What :func:`~bayescl_lab.paper.ranking.reproduction.reproduce_cell` returns."""

ORDER = ("ml-100k", "ml-1m", "yahoo-r3", "yelp2018", "gowalla")
"""Data sets in the paper's order; others follow."""

_SETTINGS = (
    "temperature",
    "tau_plus",
    "alpha",
    "beta",
    "concentration",
    "attraction",
    "item_norm_exponent",
)
MEASURES = ("recall@20", "ndcg@20")
"""The metrics of figures and of differences to InfoNCE."""

PAGE_METRICS = ("recall@10", "ndcg@10", "recall@20", "ndcg@20")
"""The metrics that fit a page; the Markdown table has all."""


def read_cells(folder: Path) -> list[dict[str, Any]]:
    """The cells in a folder, in the order of the table."""
    cells = [read_json(file) for file in sorted(folder.glob("*.json"))]

    def place(cell: Mapping[str, Any]) -> tuple[int, str, bool, str]:
        data = data_name(cell)
        number = ORDER.index(data) if data in ORDER else len(ORDER)
        return number, cell["data"], cell["encoder"] != "mf", cell["encoder"]

    return sorted((cell for cell in cells if {"losses", "baselines"} <= cell.keys()), key=place)


def tables_markdown(cells: Sequence[Cell]) -> str:
    """Every cell with a heading, its figures and their cost."""
    parts = [f"### {cell_title(cell)}\n\n{cell_markdown(cell)}" for cell in cells]
    return "\n\n".join(parts) + "\n"


def cell_markdown(cell: Cell) -> str:
    """The tables of a cell, with notes."""
    parts = [note(cell), figures_table(cell).markdown(), against_paper(cell)]
    for table in (difference_table(cell, MEASURES), settings_table(cell)):
        parts += [table.title, table.markdown() if table.rows else "", table.note]
    return "\n\n".join(part for part in parts if part)


def cell_title(cell: Cell) -> str:
    """Data set, encoder and split of a cell."""
    split = ", LightGCN's split" if cell["data"] in PUBLISHED else ""
    return f"{cell['data']}{split}, {encoder_title(cell['encoder'])}"


def note(cell: Cell) -> str:
    """The note on the figures of a cell."""
    seeds = cell["seeds"]
    sizes = cell["interactions"]
    words = [
        f"{sizes['users']:,} users, {sizes['items']:,} items, {sizes['train']:,} interactions to "
        f"train on and {sizes[cell['evaluated_on']]:,} to judge by, of {cell['users']:,} users"
        f" ({cell['users_left_out']:,} have none and are left out).",
        f"Means over {seeds} seeds ± standard deviation."
        if seeds > 1
        else "One seed: no spread, and small differences mean nothing.",
    ]
    if cell["data"] in PUBLISHED:
        words.append("The paper's figures are from another split, so they are left out.")
    elif any(theirs(cell, loss, "ndcg@20") for loss in cell["losses"]):
        words.append("In parentheses what the paper prints, chosen on the test part.")
    if cell["protocol"] == PAPER:
        words.append("**Best epoch on the test part for each metric: inflated.**")
    return " ".join(words)


def metrics_table(metrics: Mapping[str, float]) -> Table:
    """All metrics of one recommender: a row per metric, a column per list length."""
    names = list(dict.fromkeys(name.partition("@")[0] for name in metrics))
    lengths = list(dict.fromkeys(name.partition("@")[2] for name in metrics))
    rows = [
        [name.replace("_", " "), *(f"{metrics[f'{name}@{k}']:.4f}" for k in lengths)]
        for name in names
    ]
    return Table(["", *(f"@{k}" for k in lengths)], rows)


def figures_table(cell: Cell, metrics: Sequence[str] = METRICS) -> Table:
    """One row per loss and baseline, one column per metric; published rows at the end."""
    first = next(iter(cell["losses"].values()))["metrics"]
    metrics = [metric for metric in metrics if metric in first]
    rows = []
    for name, entry in {**cell["losses"], **cell["baselines"]}.items():
        row = [loss_title(name)]
        for metric in metrics:
            text = mean_text(entry["metrics"][metric], ".4f")
            printed = theirs(cell, name, metric) if name in cell["losses"] else None
            if printed is not None:
                wrong = (data_name(cell), cell["encoder"], name, metric) in MISPRINTS
                text += f" ({printed:.4f}{', misprint' * wrong})"
            row.append(_plain(text))
        rows.append(row)
    for name, published in PUBLISHED.get(cell["data"], {}).items():
        values = [_plain(f"{published[one]:.4f}") if one in published else "" for one in metrics]
        rows.append([f"*published: {name}*", *values])
    return Table(["", *map(measure_title, metrics)], rows)


def settings_table(cell: Cell) -> Table:
    """The hyper-parameters, epochs and cost of every loss, and the number of settings tried."""
    rows = []
    for loss, entry in cell["losses"].items():
        row = {"": loss_title(loss)}
        if cell.get("tuning"):
            row["chosen of"] = str(len(cell["tuning"]["losses"][loss]["scores"]))
        for name in _SETTINGS:
            if name in entry["settings"]:
                value = entry["settings"][name]
                row[name] = _default_prior(loss) if value is None else f"{value:g}"
        row["epochs"] = str(entry["epochs"])
        row["s/epoch"] = f"{entry['seconds_per_epoch']['mean']:.1f}"
        rows.append(row)
    known = ("", "chosen of", *_SETTINGS, "epochs", "s/epoch")
    head = [name for name in known if any(name in row for row in rows)]
    return Table(head, [[row.get(name, "") for name in head] for row in rows], title=_shared(cell))


def _default_prior(loss: str) -> str:
    """The default of ``tau_plus``."""
    share = RankingLoss(loss).density_share
    return "density" if share == 1 else f"{share:g} density"


def theirs(cell: Cell, loss: str, metric: str) -> float | None:
    """The paper's figures for such a split, if any."""
    if cell["data"] in PUBLISHED:
        return None
    return PRINTED.get((data_name(cell), cell["encoder"], loss), {}).get(metric)


def _shared(cell: Cell) -> str:
    """The settings that all losses of a cell share."""
    settings: Mapping[str, Any] = next(iter(cell["losses"].values()))["settings"]
    drawn = settings["candidates"] in ("shared", "per-pair")
    words = [
        f"dimension {settings['dim']}",
        *(f"{settings[name]} {name}" for name in ENCODERS[settings["encoder"]].own_settings),
        f"{settings['score']} scores",
        f"batches of {settings['batch_size']:,} pairs",
        f"candidates: {settings['candidates']}" + (f", {settings['count']}" if drawn else ""),
        "a user's known items "
        + ("do not count" if settings["mask_known"] else "count, but for the pair's own"),
        f"learning rate {settings['lr']:g} ({settings['schedule']})",
        f"weight decay {settings['weight_decay']:g}",
    ]
    return f"Every loss: {'; '.join(words)}."


def _plain(text: str) -> str:
    """Figures without the zero before the point.

    Example:
        >>> _plain("0.3588 ± 0.0011")
        '.3588 ± .0011'
    """
    return re.sub(r"(?<!\d)0\.", ".", text)


def against_paper(cell: Cell) -> str:
    """One sentence that compares our rows with the paper's; empty if there are none.

    Misprints and missing figures are left out.
    """
    gaps = {
        (loss, metric): entry["metrics"][metric]["mean"] - printed
        for loss, entry in cell["losses"].items()
        for metric in METRICS
        if (printed := theirs(cell, loss, metric)) is not None
        and (data_name(cell), cell["encoder"], loss, metric) not in MISPRINTS
    }
    if not gaps:
        return ""
    below = [f"{loss} on {metric} ({gap:+.4f})" for (loss, metric), gap in gaps.items() if gap < 0]
    if not below:
        return f"All {len(gaps)} figures are at or above what the paper prints for the same loss."
    return (
        f"{len(gaps) - len(below)} of {len(gaps)} figures are at or above what the paper prints "
        f"for the same loss; below it are {', '.join(below)}."
    )


def data_name(cell: Cell) -> str:
    """The data set's name, without its split."""
    return str(cell["data"]).partition(",")[0]


def baseline_sentences(result: Mapping[str, Any]) -> list[str]:
    """The baselines' results on the same parts of the data, at the longest list.

    ``result`` is ``result.json`` or ``evaluation.json`` of a recommender.
    """
    sentences = []
    for name, one in result.get("baselines", {}).items():
        if "left_out" in one:
            sentences.append(str(one["left_out"]))
            continue
        longest = max(int(metric.partition("@")[2]) for metric in one["metrics"])
        figures = ", ".join(
            f"{measure_title(metric)} {one['metrics'][metric]:.4f}"
            for metric in (f"{shown}@{longest}" for shown in ("recall", "ndcg"))
        )
        penalty = one.get("settings", {}).get("regularization")
        settings = "" if penalty is None else f" (regularization {penalty:g})"
        sentences.append(f"beside it, {loss_title(name)}{settings}: {figures}")
    return sentences

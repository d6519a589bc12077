"""Cells of the ranking table: our values, the paper's, baselines, and differences to InfoNCE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.compare.summary import exceeds_noise, paired_difference
from bayescl_lab.paper.ranking.printed import METRICS, MISPRINTS, PUBLISHED
from bayescl_lab.paper.ranking.printed import PAPER as PRINTED
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.report.tables import Table, bold, mean_text
from bayescl_lab.report.titles import encoder_title, loss_title, measure_title
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import BASELINE, RankingLoss
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
    for table in (differences_table(cell), settings_table(cell)):
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


def figures_table(cell: Cell, metrics: Sequence[str] = METRICS) -> Table:
    """One row per loss and baseline, one column per metric; published rows at the end."""
    first = next(iter(cell["losses"].values()))["metrics"]
    metrics = [metric for metric in metrics if metric in first]
    rows = []
    for name, entry in {**cell["losses"], **cell["baselines"]}.items():
        figures = [_plain(mean_text(entry["metrics"][metric], ".4f")) for metric in metrics]
        if name in cell["losses"]:
            figures = [
                figure + _printed(cell, name, metric)
                for figure, metric in zip(figures, metrics, strict=True)
            ]
        rows.append([loss_title(name), *figures])
    for name, published in PUBLISHED.get(cell["data"], {}).items():
        values = [_plain(f"{published[one]:.4f}") if one in published else "" for one in metrics]
        rows.append([f"*published: {name}*", *values])
    return Table(["", *map(measure_title, metrics)], rows)


def differences_table(cell: Cell) -> Table:
    """How far every loss lies above InfoNCE, paired by seed; empty for a single seed."""
    metrics = ("recall@20", "ndcg@20")
    columns = [paired_differences(cell, metric) for metric in metrics]
    if cell["seeds"] == 1 or not columns[0]:
        return Table([], [])
    rows = [
        [
            loss_title(loss),
            *(bold(mean_text(one[loss], "+.4f"), one[loss]["certain"]) for one in columns),
        ]
        for loss in columns[0]
    ]
    head = ["above InfoNCE, paired by seed", *map(measure_title, metrics)]
    return Table(head, rows, note="Bold: at least two standard errors from 0.")


def settings_table(cell: Cell) -> Table:
    """The hyper-parameters, epochs and cost of every loss, and the number of settings tried."""
    rows, tuning = [], cell.get("tuning")
    for loss, entry in cell["losses"].items():
        chosen = entry["settings"]
        values = [
            _prior(loss) if name in chosen and chosen[name] is None else _number(chosen.get(name))
            for name in _SETTINGS
        ]
        tried = [str(len(tuning["losses"][loss]["scores"]))] if tuning else []
        seconds = f"{entry['seconds_per_epoch']['mean']:.1f}"
        rows.append([loss_title(loss), *tried, *values, str(entry["epochs"]), seconds])
    chosen_of = ["chosen of"] if tuning else []
    head = ["", *chosen_of, *_SETTINGS, "epochs", "s/epoch"]
    used = [number for number in range(len(head)) if not number or any(row[number] for row in rows)]
    rows = [[row[at] for at in used] for row in rows]
    return Table([head[at] for at in used], rows, title=_shared(cell))


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


def _printed(cell: Cell, loss: str, metric: str) -> str:
    """The paper's value in parentheses, if there is one for such a split."""
    figure = theirs(cell, loss, metric)
    if figure is None:
        return ""
    misprint = (data_name(cell), cell["encoder"], loss, metric) in MISPRINTS
    return f" ({_plain(f'{figure:.4f}')}{', misprint' * misprint})"


def _plain(text: str) -> str:
    """Figures without the zero before the point.

    Example:
        >>> _plain("0.3588 ± 0.0011")
        '.3588 ± .0011'
    """
    return re.sub(r"(?<!\d)0\.", ".", text)


def _prior(loss: str) -> str:
    """The default of ``tau_plus``."""
    share = RankingLoss(loss).density_share
    return "density" if share == 1 else f"{share:g} density"


def _number(value: float | None) -> str:
    """A setting, or nothing."""
    return "" if value is None else f"{value:g}"


def paired_differences(cell: Cell, metric: str) -> dict[str, dict[str, Any]]:
    """Each loss less InfoNCE by a metric such as "ndcg@20", seed by seed; empty without InfoNCE.

    ``certain`` says whether the mean is at least two standard errors from 0; None for one seed.
    """
    values = {loss: entry["metrics"][metric]["values"] for loss, entry in cell["losses"].items()}
    base = values.pop(BASELINE, None)
    if base is None:
        return {}
    found = {loss: paired_difference(ours, base) for loss, ours in values.items()}
    return {
        loss: {**one, "certain": exceeds_noise(one, len(base)) if len(base) > 1 else None}
        for loss, one in found.items()
    }


def above_paper(cell: Cell) -> dict[str, dict[str, float]]:
    """By loss and metric, our mean less the paper's figure for that loss on such a split.

    Misprints and missing figures are left out.
    """
    gaps: dict[str, dict[str, float]] = {}
    for loss, entry in cell["losses"].items():
        for metric in METRICS:
            paper, place = theirs(cell, loss, metric), (data_name(cell), cell["encoder"])
            if paper is not None and (*place, loss, metric) not in MISPRINTS:
                gaps.setdefault(loss, {})[metric] = entry["metrics"][metric]["mean"] - paper
    return gaps


def against_paper(cell: Cell) -> str:
    """One sentence that compares our rows with the paper's; empty if there are none."""
    gaps = above_paper(cell)
    if not gaps:
        return ""
    below = [
        f"{loss} on {metric} ({gap:+.4f})"
        for loss, by_metric in gaps.items()
        for metric, gap in by_metric.items()
        if gap < 0
    ]
    count = sum(map(len, gaps.values()))
    if not below:
        return f"All {count} figures are at or above what the paper prints for the same loss."
    return (
        f"{count - len(below)} of {count} figures are at or above what the paper prints for the "
        f"same loss; below it are {', '.join(below)}."
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

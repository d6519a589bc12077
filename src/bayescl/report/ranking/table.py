"""Cells of the ranking table as Markdown: ours, the paper's value beside it, baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayescl.experiments.ranking.paper import METRICS, is_misprint, paper_figure
from bayescl.experiments.ranking.published import PUBLISHED, has_lightgcn_split
from bayescl.recsys.encoders import ENCODERS
from bayescl.report.ranking.differences import paired_differences, verdict
from bayescl.runs.losses import LOSSES
from bayescl.runs.ranking import baselines
from bayescl.runs.ranking.settings import PAPER

_SHORT = {"precision": "P", "recall": "R", "ndcg": "NDCG"}
_SETTINGS = (
    "temperature",
    "tau_plus",
    "alpha",
    "beta",
    "concentration",
    "item_norm_exponent",
)

Cell = Mapping[str, Any]
"""What :func:`~bayescl.experiments.ranking.reproduction.reproduce_cell` returns."""


def tables_markdown(cells: Sequence[Cell]) -> str:
    """Every cell with a heading, its figures, and what they cost.

    Args:
        cells: in the order in which they are to appear.
    """
    parts = [f"### {cell_title(cell)}\n\n{cell_markdown(cell)}" for cell in cells]
    return "\n\n".join(parts) + "\n"


def cell_markdown(cell: Cell) -> str:
    """The tables of a cell, and what must be said of them."""
    parts = [note(cell), figures_table(cell), verdict(cell), differences_table(cell)]
    parts.append(settings_table(cell))
    return "\n\n".join(part for part in parts if part)


def cell_title(cell: Cell) -> str:
    """Data set, encoder and split of a cell."""
    encoder = ENCODERS[cell["encoder"]].title
    split = ", LightGCN's split" if has_lightgcn_split(cell["data"]) else ""
    return f"{cell['data']}{split}, {encoder}"


def note(cell: Cell) -> str:
    """What a reader must know to read the figures of a cell."""
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
    if has_lightgcn_split(cell["data"]):
        words.append("The paper's figures are from another split and cannot stand here.")
    elif any(
        paper_figure(_name(cell), cell["encoder"], loss, "ndcg@20") for loss in cell["losses"]
    ):
        words.append("In parentheses what the paper prints, chosen on the test part.")
    if cell["protocol"] == PAPER:
        words.append("**Best epoch on the test part for each metric: inflated.**")
    return " ".join(words)


def figures_table(cell: Cell) -> str:
    """One row per loss and baseline, one column per metric; published rows at the end."""
    published = PUBLISHED.get(cell["data"], {})
    metrics = [
        metric for metric in METRICS if metric in next(iter(cell["losses"].values()))["metrics"]
    ]
    head = ["", *(metric_title(metric) for metric in metrics)]
    lines = [_row(head), _row(["---", *["--:"] * len(metrics)])]
    for loss, entry in cell["losses"].items():
        lines.append(
            _row([LOSSES[loss].title, *(_figure(cell, loss, entry, name) for name in metrics)])
        )
    for name, entry in cell["baselines"].items():
        values = [_mean(entry["metrics"][metric]) for metric in metrics]
        lines.append(_row([baselines.TITLES[name], *values]))
    for name, figures in published.items():
        values = [_plain(figures[metric]) if metric in figures else "" for metric in metrics]
        lines.append(_row([f"*published: {name}*", *values]))
    return "\n".join(lines)


def differences_table(cell: Cell) -> str:
    """How far every loss lies above InfoNCE, paired by seed; empty for a single seed."""
    metrics = ("recall@20", "ndcg@20")
    columns = [paired_differences(cell, metric) for metric in metrics]
    if cell["seeds"] == 1 or not columns[0]:
        return ""
    head = ["above InfoNCE, paired by seed", *map(metric_title, metrics)]
    lines = [_row(head), _row(["---", *["--:"] * len(metrics)])]
    for loss in columns[0]:
        lines.append(_row([LOSSES[loss].title, *(_difference(one[loss]) for one in columns)]))
    lines.append("")
    lines.append("Bold: at least two standard errors from 0.")
    return "\n".join(lines)


def _difference(entry: Mapping[str, Any]) -> str:
    """A paired difference, bold where it is certain."""
    text = f"{entry['mean']:+.4f} ± {entry['spread']:.4f}"
    return f"**{text}**" if entry["certain"] else text


def settings_table(cell: Cell) -> str:
    """The chosen hyper-parameters, epochs and cost of every loss."""
    tuning = cell["tuning"]
    head = ["", "chosen of", *_SETTINGS, "epochs", "s/epoch"]
    lines = [_row(head), _row(["---", *["--:"] * (len(head) - 1)])]
    for loss, entry in cell["losses"].items():
        chosen = entry["settings"]
        values = [
            "density" if name in chosen and chosen[name] is None else _number(chosen.get(name))
            for name in _SETTINGS
        ]
        tried = str(len(tuning["losses"][loss]["scores"]))
        seconds = f"{entry['seconds_per_epoch']['mean']:.1f}"
        lines.append(_row([LOSSES[loss].title, tried, *values, str(entry["epochs"]), seconds]))
    return f"{_shared(cell)}\n\n" + "\n".join(lines)


def _shared(cell: Cell) -> str:
    """What all losses of a cell have in common."""
    settings = next(iter(cell["losses"].values()))["settings"]
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


def metric_title(metric: str) -> str:
    """A metric as a column's heading.

    Example:
        >>> metric_title("ndcg@20")
        'NDCG@20'
    """
    name, _, k = metric.partition("@")
    return f"{_SHORT.get(name, name)}@{k}"


def _figure(cell: Cell, loss: str, entry: Mapping[str, Any], metric: str) -> str:
    """Ours, and the paper's value where there is one for such a split."""
    ours = _mean(entry["metrics"][metric])
    if has_lightgcn_split(cell["data"]):
        return ours
    place = (_name(cell), cell["encoder"], loss, metric)
    theirs = paper_figure(*place)
    if theirs is None:
        return ours
    mark = ", misprint" if is_misprint(*place) else ""
    return f"{ours} ({_plain(theirs)}{mark})"


def _name(cell: Cell) -> str:
    """The data set's name alone."""
    return str(cell["data"]).partition(",")[0]


def _mean(entry: Mapping[str, Any]) -> str:
    """Mean and spread.

    Example:
        >>> _mean({"mean": 0.35882, "spread": 0.0011})
        '.3588 ± .0011'
    """
    mean = _plain(entry["mean"])
    return mean if entry["spread"] is None else f"{mean} ± {_plain(entry['spread'])}"


def _plain(value: float) -> str:
    """Four decimals, without the zero before them."""
    return f"{value:.4f}".removeprefix("0")


def _number(value: float | None) -> str:
    """A setting, or nothing."""
    return "" if value is None else f"{value:g}"


def _row(cells: Sequence[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"

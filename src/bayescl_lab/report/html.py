"""One or several runs, comparisons or tables as a self-contained HTML page."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from bayescl.figures import panels, png
from bayescl_lab.report.figures import cells_figure, comparison_figure
from bayescl_lab.report.images import accuracy_table, probe_table, table_rows, what_was_run
from bayescl_lab.report.ranking import (
    MEASURES,
    PAGE_METRICS,
    against_paper,
    baseline_sentences,
    cell_title,
    figures_table,
    metrics_table,
    note,
    read_cells,
    settings_table,
)
from bayescl_lab.report.tables import Table, counted, difference_table
from bayescl_lab.report.titles import data_title, loss_colour, loss_title, measure_title
from bayescl_lab.report.verdicts import comparison_verdict, training_verdict, trust_of_runs
from bayescl_lab.runs.folder import RunFolder, read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATION = "simulation.json"
"""File in the folder of numerical experiments that holds their settings and the seed."""

_CAPTIONS = {
    "comparison": "Accuracy by loss; a dot is a seed, a bar the mean over seeds.",
    "inspection-candidates": "Anchors with the candidates of smallest and largest weight.",
    "inspection-components": "The most typical images of each component of the coarsest mixture.",
    "inspection-reliability": "The posterior against the share of true negatives.",
    "inspection-weights": "The weights of candidates.",
    "ranking": "Metrics by loss and baseline.",
}
_ORIGIN = ("command", "started", "commit", "hardware", "versions", "workers", "threads_per_run")
_READINGS = {
    "loss": "loss",
    "knn": measure_title("knn"),
    "ndcg@20": measure_title("ndcg@20"),
    "trust": "trust",
    "pair_precision": "precision of attracting pairs",
}
"""Columns of ``metrics.csv`` that are drawn, with their titles."""

_LARGEST_PICTURE = 16 * 2**20


@dataclass
class Section:
    """The part of a page on one folder; text may use ``**`` for bold and backticks for code.

    Attributes:
        title: its heading.
        lead: paragraphs below it.
        tables: with their own titles and notes.
        findings: sentences made from the figures.
        pictures: captions with PNG files.
        settings: names and values.
        origin: what produced the figures.
        scores: one column per score in the table of several runs.
    """

    title: str
    lead: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)


def report_page(folders: Sequence[Path]) -> str:
    """Settings, tables, figures, pictures and provenance of runs, comparisons and paper tables.

    Args:
        folders: folders of runs of any kind, finished or not, or with a ``comparison.json``,
            cells of the ranking table, or numerical experiments.

    Returns:
        Self-contained HTML. Content of the files is shown as text.

    Raises:
        ValueError: if a folder is missing or holds no results, or if a file in it is damaged.
    """
    return page_of([section_of(folder) for folder in folders], "made from result files")


def page_of(sections: Sequence[Section], source: str) -> str:
    """Sections as one HTML page, with a table of scores on top if there are several."""
    columns = list(dict.fromkeys(name for section in sections for name in section.scores))
    overview = Table(
        ["run", *columns],
        [
            [section.title, *(section.scores.get(name, "") for name in columns)]
            for section in sections
            if section.scores
        ],
    )
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(rich=_rich, shown=_shown, uri=_uri, least_width=_least_width)
    title = sections[0].title if len(sections) == 1 else counted(len(sections), "result")
    text = environment.get_template("page.html").render(
        title=title,
        source=source,
        sections=sections,
        overview=overview if len(overview.rows) > 1 else None,
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # names may hold half a letter


def section_of(folder: Path) -> Section:
    """The section of a folder.

    Raises:
        ValueError: as :func:`report_page` does.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    has_config = (folder / "config.yaml").is_file()
    config = RunFolder.find(folder).config() if has_config else {}
    files = [folder / name for name in ("result.json", "comparison.json", "evaluation.json")]
    file = next((file for file in files if file.is_file()), None)
    try:
        if file is not None:
            section = _result_section(folder, read_json(file))
        elif (folder / SIMULATION).is_file():
            return _simulation_section(folder)
        elif cells := read_cells(folder):
            section = _cells_section(cells)
        elif has_config:
            section = Section(folder.resolve().name, ["Not finished: no result yet."])
        else:
            raise ValueError(f"{folder} holds no run and no results")
        section.settings = section.settings or config
        is_drawn = bool(section.pictures)  # from the figures
        for picture in sorted(folder.glob("*.png")):
            content = picture.read_bytes()
            is_picture = content.startswith(b"\x89PNG") and len(content) <= _LARGEST_PICTURE
            if is_picture and not (is_drawn and picture.stem in ("comparison", "ranking")):
                section.pictures.append((_CAPTIONS.get(picture.stem, picture.stem), content))
        section.pictures += _training_curves(folder)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"{file or folder} is damaged: {type(error).__name__} {error}") from None
    except (StopIteration, ValueError) as error:
        if str(folder) in str(error):  # it says already what is wrong with which file
            raise
        raise ValueError(f"{file or folder} is damaged: {error or 'it is empty'}") from None
    return section


def _result_section(folder: Path, result: Mapping[str, Any]) -> Section:
    """A comparison, a table of the paper or a single run."""
    settings, origin = result.get("settings", {}), _origin(result)
    if "cells" in result:
        head, rows, notes = table_rows(result)
        spread = f"Mean ± {result['spread']} ({counted(len(result['seeds']), 'seed')})."
        table = Table(head, rows, note=spread, numeric=False)
        remarks = [f"[{number}] {text}." for number, text in enumerate(notes, start=1)]
        found = [*remarks, *result["remarks"]]
        return Section(result["title"], [result["protocol"]], [table], found, origin=origin)
    if "summary" in result:
        title = f"{len(result['summary']['losses'])} losses on {data_title(settings['data'])}"
        differences = difference_table(result)
        return Section(
            title,
            [what_was_run(result)],
            [accuracy_table(result), *([differences] if differences.rows else [])],
            comparison_verdict(result, trust_of_runs(folder)),
            [(_CAPTIONS["comparison"], figure_png(comparison_figure, result))],
            settings,
            origin,
        )
    if {"losses", "baselines"} <= result.keys():
        said = comparison_verdict(result, trust_of_runs(folder))
        return replace(_cells_section([dict(result)]), settings=settings, findings=said)
    name = settings["loss"] if "loss" in settings else settings["encoder"]
    title = f"{loss_title(name)} on {data_title(settings['data'])}"
    words = [counted(result["epochs"], "epoch")] if result.get("epochs") else []
    words += [f"seed {settings['seed']}"] if "seed" in settings else []
    words += [f"scored on the {settings['evaluate_on']} part"]
    lead = [f"Run `{folder.resolve().name}`: {', '.join(words)}."]
    lead += [str(remark) for remark in result.get("remarks", [])]
    lead += training_verdict(name, RunFolder(folder, "").read_metrics())
    lead += [f"{sentence}." for sentence in baseline_sentences(result)]
    if "metrics" in result:
        metrics, table = result["metrics"], metrics_table(result["metrics"])
        scores = {measure_title(k): f"{metrics[k]:.4f}" for k in metrics if k.endswith("@20")}
    else:
        table = probe_table(result["probes"])
        scores = {row[0]: row[1] for row in table.rows}
    return Section(title, lead, [table], settings=settings, origin=origin, scores=scores)


def _origin(result: Mapping[str, Any]) -> dict[str, Any]:
    """What produced the figures."""
    return {name: result[name] for name in _ORIGIN if result.get(name) is not None}


def _cells_section(cells: list[dict[str, Any]]) -> Section:
    """The cells of the ranking table."""
    section = Section("Top-k ranking", [f"{counted(len(cells), 'cell')} of the table."])
    for cell in cells:
        title, beside = f"**{cell_title(cell)}.** {note(cell)}", against_paper(cell)
        figures = replace(figures_table(cell, PAGE_METRICS), title=title, note=beside)
        differences = difference_table(cell, MEASURES)
        section.tables += [figures, *([differences] if differences.rows else [])]
        section.tables.append(settings_table(cell))
    section.pictures = [(_CAPTIONS["ranking"], figure_png(cells_figure, cells))]
    section.origin = _origin(cells[0])
    return section


def _simulation_section(folder: Path) -> Section:
    """The paper's numerical experiments whose files are in a folder."""
    from bayescl_lab.paper.simulation.experiments import EXPERIMENTS, read_table

    section = Section("The paper's numerical experiments", settings=read_json(folder / SIMULATION))
    for experiment in EXPERIMENTS:
        data, picture = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "png"))
        if not data.is_file():
            continue
        said = experiment.finding(read_table(data))
        section.findings += [f"**{experiment.name}**: {said}"] if said else []
        if picture.is_file():
            caption = f"{experiment.name}: {experiment.summary}"
            section.pictures.append((caption, picture.read_bytes()))
    return section


def training_readings(
    folder: Path,
) -> tuple[list[tuple[str, list[dict[str, float]]]], list[str], bool]:
    """The rows of the run in a folder, or of all runs in ``runs`` below it, and what they hold.

    Returns:
        Losses with rows; the readings to draw; and whether there are several losses. Different
        losses are not of one scale, so their values are not drawn then.
    """
    curves: list[tuple[str, list[dict[str, float]]]] = []
    for file in sorted([*folder.glob("metrics.csv"), *folder.glob("runs/*/metrics.csv")]):
        rows = RunFolder(file.parent, "").read_metrics()
        rows = [row for row in rows if {"epoch", "loss"} <= row.keys()]
        if rows and (file.parent / "config.yaml").is_file():
            loss = str(RunFolder.find(file.parent).config().get("loss", ""))
            curves.append((loss, rows))
    known = {name for _, rows in curves for row in rows for name in row}
    several = len({loss for loss, _ in curves}) > 1
    wanted = [name for name in _READINGS if not (several and name == "loss")]
    return curves, [name for name in wanted if name in known], several


def _training_curves(folder: Path) -> list[tuple[str, bytes]]:
    """A picture of the readings of every epoch, if there are any."""
    curves, shown, several = training_readings(folder)
    if not shown:
        return []

    def draw(_: object) -> Figure:
        from matplotlib.ticker import MaxNLocator

        columns = min(2, len(shown))
        rows = -(-len(shown) // columns)
        figure, axes = panels(rows, columns, width=5.2 * columns, height=3.4 * rows)
        for axis in axes[len(shown) :]:
            axis.remove()
        for axis, name in zip(axes, shown, strict=False):
            for loss, readings in curves:
                points = [(row["epoch"], row[name]) for row in readings if name in row]
                if points:
                    colour, label = loss_colour(loss), loss_title(loss)
                    axis.plot(
                        *zip(*points, strict=True), color=colour, lw=1.3, marker=".", label=label
                    )
            axis.set_xlabel("epoch")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_ylabel(_READINGS[name])
            if several:
                handles, labels = axis.get_legend_handles_labels()
                one_each = dict(zip(labels, handles, strict=True))
                axis.legend(one_each.values(), one_each, fontsize=8)
        return figure

    caption = f"Training: {counted(len(curves), 'run')}, epoch by epoch."
    return [(caption, figure_png(draw, None))]


def figure_png(figure: Any, content: object) -> bytes:
    """A figure as PNG; names are drawn literally, even if no font has their letters."""
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
        warnings.simplefilter("ignore")
        return png(figure(content), dpi=130)


def _rich(text: object) -> Markup:
    """Text with asterisks and backticks turned into markup; everything else is escaped."""
    safe = str(escape(text))
    for pattern, tag in ((r"`([^`]+)`", "code"), (r"\*\*(.+?)\*\*", "strong")):
        safe = re.sub(pattern, rf"<{tag}>\1</{tag}>", safe)
    safe = safe.replace("<strong>-", '<strong class="below">-')  # a difference below 0
    return Markup(re.sub(r"^\*([^*]+)\*$", r"<em>\1</em>", safe))


def _shown(value: object) -> str:
    """A setting as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _uri(content: bytes) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _least_width(content: bytes) -> int:
    """The width in pixels below which a PNG file of ours is too small to read."""
    return round(0.36 * int.from_bytes(content[16:20], "big"))

"""Self-contained HTML pages of runs, comparisons and tables."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from markupsafe import Markup, escape

from bayescl_lab._figures import png
from bayescl_lab._files import UnreadableError
from bayescl_lab.compare.result import Result, origin_of
from bayescl_lab.report.figures import training_figure
from bayescl_lab.report.results import read_results, result_tables, result_title
from bayescl_lab.report.runs import run_sentences, run_table
from bayescl_lab.report.tables import (
    Table,
    counted,
    data_title,
    loss_title,
    paragraph,
    template,
)
from bayescl_lab.report.verdicts import comparison_verdict, runs_below, training_verdict
from bayescl_lab.runs.folder import RunFolder, read_json

SIMULATION = "simulation.json"
"""File with settings and seed in the folder of numerical experiments."""

_CAPTIONS = {
    "comparison": "Every loss; a dot is a seed, a bar the mean over seeds.",
    "ranking": "Metrics by loss and baseline.",
}
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError)
_LARGEST_PICTURE = 16 * 2**20


@dataclass
class Section:
    """Section of a page on one folder. Text may use ``**`` for bold and backticks for code.

    Pictures are captions with PNG files, ``origin`` is the provenance, and ``scores`` are columns
    in the table of several runs.
    """

    title: str
    lead: Sequence[str] = ()
    tables: Sequence[Table] = ()
    findings: Sequence[str] = ()
    pictures: Sequence[tuple[str, bytes]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)


def report_page(folders: Sequence[Path]) -> str:
    """Make a page with settings, tables, figures, pictures and provenance.

    Args:
        folders: Folders of runs, finished or not, of comparisons, of the ranking table, or of
            numerical experiments.

    Returns:
        Self-contained HTML. Content of files is escaped.

    Raises:
        ValueError: if a folder is missing or has no results, or a file in it is damaged.
    """
    return page_of([section_of(folder) for folder in folders], "made from result files")


def page_of(sections: Sequence[Section], source: str) -> str:
    """Render sections as one HTML page, with a table of scores if there are several."""
    records = [{"run": part.title, **part.scores} for part in sections if part.scores]
    title = sections[0].title if len(sections) == 1 else counted(len(sections), "result")
    page = template("page.html", rich=_rich, base64=base64.b64encode, width=_width)
    text = page.render(
        title=title,
        source=source,
        sections=sections,
        overview=Table(records if len(records) > 1 else []),
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # names may have invalid surrogates


def section_of(folder: Path) -> Section:
    """Return the section of a folder.

    Raises:
        ValueError: as :func:`report_page` does.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    files = [folder / name for name in ("result.json", "comparison.json", "evaluation.json")]
    file = next((file for file in files if file.is_file()), folder)
    try:
        section = _content(folder, file)
        section.pictures = section.pictures or _pictures(folder)
    except UnreadableError:
        raise
    except (*_DAMAGE, TemplateError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {type(error).__name__} {error}") from None
    return section


def _content(folder: Path, file: Path) -> Section:
    """Return the section of a run, of results or of experiments."""
    has_config = (folder / "config.yaml").is_file()
    config = RunFolder.find(folder).config() if has_config else {}
    if file == folder and (folder / SIMULATION).is_file():
        return _simulation_section(folder)
    content = {} if file == folder else read_json(file)
    results = read_results(folder) if file == folder else Result.read_all(content)
    if not (results or content or has_config):
        raise UnreadableError(f"{folder} holds no run and no results")
    if not (results or content):
        return Section(folder.resolve().name, ["Not finished: no result yet."], settings=config)
    if results:
        section, first = _results_section(results), results[0]
        section.settings, section.origin = first.settings or config, first.origin
    else:
        section = _run_section(folder, content)
        section.settings = content.get("settings") or config
        section.origin = origin_of(content)
    return section


def _results_section(results: Sequence[Result]) -> Section:
    """Return the section of comparisons and tables."""
    first = results[0]
    tables = []
    for result in results:
        figures, *others = result_tables(result)
        title = f"**{result_title(result)}.** {figures.title}"
        tables += [replace(figures, title=title), *others]
    is_one = len(results) == 1
    if first.title:
        findings = list(dict.fromkeys(remark for one in results for remark in one.remarks))
    else:
        findings = comparison_verdict(first) if is_one else []
    lead = (
        [paragraph("what_was_run", first)]
        if is_one and not (first.title or first.baselines)
        else []
    )
    return Section(result_title(first) if is_one else "The paper's tables", lead, tables, findings)


def _run_section(folder: Path, result: Mapping[str, Any]) -> Section:
    """Return the section of a single run."""
    settings = result["settings"]
    name = settings["loss"] if "loss" in settings else settings["encoder"]
    words = [counted(result["epochs"], "epoch")] if result.get("epochs") else []
    words += [f"seed {settings['seed']}"] if "seed" in settings else []
    table = run_table(result)
    if table.records:
        words += [f"scored on the {settings['evaluate_on']} part"]
    lead = [
        f"Run `{folder.resolve().name}`: {', '.join(words)}.",
        *(f"{text.removesuffix('.')}." for text in run_sentences(result)),
        *training_verdict(settings),
    ]
    # The accuracies, or the metrics of the longest lists.
    scores = {row[0]: row[1] if table.head[0] else row[-1] for row in table.rows}
    title = f"{loss_title(name)} on {data_title(settings['data'])}"
    return Section(title, lead, [table], scores=scores)


def _simulation_section(folder: Path) -> Section:
    """Return the section of numerical experiments with files in a folder."""
    import polars as pl

    from bayescl_lab.paper.simulation.experiments import EXPERIMENTS

    findings, pictures = [], []
    for experiment in EXPERIMENTS:
        data, picture = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "png"))
        if data.is_file() and (finding := experiment.finding(pl.read_csv(data))):
            findings.append(f"**{experiment.name}**: {finding}")
        if picture.is_file():
            pictures.append((f"{experiment.name}: {experiment.summary}", picture.read_bytes()))
    title = "The paper's numerical experiments"
    return Section(title, [], [], findings, pictures, read_json(folder / SIMULATION))


def _pictures(folder: Path) -> list[tuple[str, bytes]]:
    """Return the PNG files in a folder and a figure of the metrics, with captions."""
    from matplotlib import rc_context

    pictures = []
    for file in sorted(folder.glob("*.png")):
        content = file.read_bytes()
        if content.startswith(b"\x89PNG") and len(content) <= _LARGEST_PICTURE:
            pictures.append((_CAPTIONS.get(file.stem, file.stem), content))
    runs = runs_below(folder)
    # Names are drawn literally, even if no font has their letters.
    with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
        warnings.simplefilter("ignore")
        figure = training_figure(runs)
        if figure is not None:
            caption = f"Training: {counted(len(runs), 'run')}, epoch by epoch."
            pictures.append((caption, png(figure, dpi=130)))
    return pictures


def _rich(text: object) -> Markup:
    """Convert asterisks and backticks to markup, and escape everything else."""
    safe = str(escape(text))
    for pattern, tag in ((r"`([^`]+)`", "code"), (r"\*\*(.+?)\*\*", "strong")):
        safe = re.sub(pattern, rf"<{tag}>\1</{tag}>", safe)
    safe = safe.replace("<strong>-", '<strong class="below">-')  # a difference below 0
    return Markup(re.sub(r"^\*([^*]+)\*$", r"<em>\1</em>", safe))


def _width(picture: bytes) -> int:
    """Return the width of a PNG file in pixels."""
    return int.from_bytes(picture[16:20], "big")

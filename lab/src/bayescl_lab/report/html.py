"""Self-contained HTML pages of runs, comparisons and tables."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jinja2 import TemplateError
from markupsafe import Markup, escape

from bayescl_lab._types import Values
from bayescl_lab.report.results import (
    classes_table,
    comparison_verdict,
    is_run,
    read_results,
    remarks_of,
    result_title,
    scores_table,
)
from bayescl_lab.report.tables import ReportTable, counted, paragraph, template
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.result import Result

_CAPTION = "Every loss; a dot is a seed, a bar the mean over seeds."
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError)


@dataclass
class Section:
    """Section of a page on one folder. Text may use ``**`` for bold and backticks for code.

    Pictures are captions with PNG files, ``origin`` is the provenance, and ``scores`` are columns
    in the table of several runs.
    """

    title: str
    lead: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    findings: Sequence[str] = ()
    pictures: Sequence[tuple[str, bytes]] = ()
    settings: Values = field(default_factory=dict)
    origin: Values = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)


def report_page(folders: Sequence[Path]) -> str:
    """Make a page with settings, tables, figures, pictures and provenance.

    Args:
        folders: Folders of runs, finished or not, or of comparisons.

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
        overview=ReportTable(records if len(records) > 1 else []),
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
    results = read_results(folder) if file == folder else Result.read_all(file)
    picture = folder / "comparison.png"
    pictures = [(_CAPTION, picture.read_bytes())] if picture.is_file() else []
    if file == folder and not results and (folder / "config.yaml").is_file():
        lead, settings = ["Not finished: no result yet."], RunFolder.find(folder).config()
        return Section(folder.resolve().name, lead, pictures=pictures, settings=settings)
    if not results:
        what = "is damaged" if file != folder else "contains no run and no results"
        raise ValueError(f"{file} {what}")
    try:
        return _results_section(folder.resolve().name, results, pictures)
    except (*_DAMAGE, TemplateError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {type(error).__name__} {error}") from None


def _results_section(
    name: str, results: Sequence[Result], pictures: Sequence[tuple[str, bytes]]
) -> Section:
    """Return the section of a run, of a comparison, or of several results."""
    first = results[0]
    tables = [*map(scores_table, results), *map(classes_table, results)]
    section = Section(result_title(first), (), tables, (), pictures, first.settings, first.origin)
    if len(results) > 1:
        section.title = name
        for number, result in enumerate(results):
            title = f"**{result_title(result)}.** {tables[number].title}"
            tables[number] = replace(tables[number], title=title)
        section.findings = list(dict.fromkeys(text for one in results for text in remarks_of(one)))
    elif is_run(first):
        words = "" if first.row.epochs is None else f": {counted(first.row.epochs, 'epoch')}"
        sentences = (f"{text.removesuffix('.')}." for text in remarks_of(first))
        section.lead = [f"Run `{name}`{words}.", *sentences]
        record = dict(tables[0].records[0]) if tables[0].records else {}
        section.scores = dict([*record.items()][1:])
    else:
        section.findings = comparison_verdict(first)
        section.lead = [] if first.baselines else [paragraph("what_was_run", first)]
    return section


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

"""``bayescl report``."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab._fields import Words
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import say
from bayescl_lab.cli._options import check_output


def report(names: Words = (), *, out: Path | None = None) -> None:
    """Make an HTML page of runs and comparisons.

    The page holds settings, tables, figures, sample pictures and provenance. It is a single
    file that loads nothing else.

    Args:
        names: folders of runs, comparisons or paper tables.
        out: the HTML file. Default: report.html in the folder, or in the current folder for
            several.
    """
    paths = [Path(name) for name in names]
    if not paths:
        raise ValueError("give at least one run folder")
    from bayescl_lab.report.html import report_page

    file = out or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    text = report_page(paths)
    write_atomically(check_output(file, ".html"), text)
    say(f"report: {file}")

"""``bayescl report``."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab._fields import Words
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import say
from bayescl_lab.cli._options import check_output


def report(
    names: Words = (), *, out: Path | None = None, pages: bool = False, check: bool = False
) -> None:
    """Make an HTML page of runs and comparisons, or update the results quoted in pages.

    The HTML page holds settings, tables, figures, sample pictures and provenance. It is a single
    file that loads nothing else.

    Args:
        names: folders of runs, comparisons or paper tables; with --pages, Markdown files and
            folders that hold some.
        out: the HTML file. Default: report.html in the folder, or in the current folder for
            several.
        pages: update the numbers and tables that Markdown pages quote from result files.
        check: with --pages, only compare; exit status 2 if a page is out of date.
    """
    paths = [Path(name) for name in names]
    if not paths:
        raise ValueError("give at least one run folder, or pages after --pages")
    if check and not pages:
        raise ValueError("--check needs --pages")
    if pages and out is not None:
        raise ValueError("--out cannot be used with --pages")
    if pages:
        from bayescl_lab.report.quoting import refresh_pages

        stale = ", ".join(map(str, refresh_pages(paths, check=check)))
        if check and stale:
            raise ValueError(f"out of date: {stale}; bayescl report --pages updates them")
        say(f"written: {stale}" if stale else "all pages are up to date")
        return
    from bayescl_lab.report.html import report_page

    file = out or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    text = report_page(paths)
    write_atomically(check_output(file, ".html"), text)
    say(f"report: {file}")

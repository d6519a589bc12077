"""Copy numbers and tables from result files into Markdown pages, instead of typing them.

    python docs/quotes.py docs README.md benchmarks/README.md reproduction/README.md

A comment says what is quoted. A number comes right before its comment::

    an error of 0.00116<!-- quote: value ../results/mse.csv mse:.5f value=0.9 -->

and a table or a paragraph between two comments, each on its own line::

    <!-- quote: text ../reproduction/results/ranking/overview.md -->
    <!-- /quote -->

After ``quote:`` come the name of a quotation, a file relative to the page, and arguments of the
quotation, split as a shell would. A file may contain a ``*``; if several match, the last by name is
used, which is the newest if names are dates.

Two quotations read any file. ``value FILE PLACE:FORM [KEY=VALUE...]`` prints one number, and
``table FILE PLACE TITLE={PLACE:FORM}... [KEY=VALUE...]`` a row per record of a list, or of the
values of a mapping. A PLACE is a path of keys such as ``losses/hard/metrics/ndcg@20/mean``. Of
several records, such as the rows of a CSV file, the conditions select one; or ``count``, ``max``,
``min`` or ``largest`` (of the absolute values) reduces them to one number, as in ``max/error``. A
FORM is a Python format; a leading ``~`` drops the zero before the point, and ``p`` instead of ``%``
multiplies by 100 without the sign, for percentage points.

``pivot FILE PLACE ROW COLUMN CELL [KEY=VALUE...]`` prints one number per record, in a row for each
value of the key ROW and a column for each value of the key COLUMN.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bayescl_lab.report.results import scores_table
from bayescl_lab.report.tables import ReportTable, loss_title, measure_title, score_text
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.result import Result

INLINE = re.compile(r"([\w.+%-]+)(<!-- quote: (.*?) -->)", re.DOTALL)
BLOCK = re.compile(
    r"^(<!-- quote: ((?:(?!-->).)*?) -->\n).*?^(<!-- /quote -->)$", re.DOTALL | re.MULTILINE
)


def refreshed(text: str, folder: Path) -> str:
    """Return the text of a page in a folder with every quote brought up to date.

    Raises:
        ValueError: if a quote is malformed, or its file is missing or has nothing at its place.
    """
    inline, blocks = len(INLINE.findall(text)), len(BLOCK.findall(text))
    if inline + blocks != text.count("<!-- quote:") or blocks != text.count("<!-- /quote -->"):
        raise ValueError("a quote has neither a number before it nor an end after it")
    text = BLOCK.sub(lambda quote: f"{quote[1]}\n{_quoted(quote[2], folder)}\n\n{quote[3]}", text)
    return INLINE.sub(lambda quote: _quoted(quote[3], folder) + quote[2], text)


def _quoted(words: str, folder: Path) -> str:
    """The text of a quote."""
    try:
        name, file, *arguments = shlex.split(words)
        if name not in QUOTATIONS:
            raise ValueError(f"there is no quotation {name}, only {', '.join(QUOTATIONS)}")
        files = sorted(folder.glob(file)) if "*" in file else [folder / file]
        if not files or not files[-1].is_file():
            raise ValueError(f"there is no file {folder / file}")
        return QUOTATIONS[name](files[-1], *arguments)
    except LookupError as error:
        raise ValueError(f"cannot quote '{words}': there is no {error}") from None
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"cannot quote '{words}': {error}") from None


def value(file: Path, what: str, *conditions: str) -> str:
    """One number of a file."""
    return filled(f"{{{what}}}", _content(file), dict(word.split("=", 1) for word in conditions))


def table(file: Path, place: str, *words: str) -> str:
    """A table with a row for each record at a place; what a record lacks is left empty."""
    columns = dict(word.split("=", 1) for word in words if "{" in word)
    where = dict(word.split("=", 1) for word in words if "{" not in word)

    def cell(template: str, record: object) -> str:
        try:
            return filled(template, record)
        except ValueError:
            return ""

    content = taken(_content(file), place, where)
    records = content.values() if isinstance(content, Mapping) else content
    return ReportTable(
        [{name: cell(columns[name], record) for name in columns} for record in records]
    ).markdown()


def pivot(file: Path, place: str, row: str, column: str, cell: str, *conditions: str) -> str:
    """A table with a row for each value of one key and a column for each value of another."""
    where = dict(word.split("=", 1) for word in conditions)
    cells: dict[str, dict[str, str]] = {}
    for record in taken(_content(file), place, where):
        try:
            text = filled(cell, record)
        except ValueError:
            continue  # the record lacks the number
        name = str(record[row]) or "default"
        at = record[column]
        title = at if isinstance(at, str) else f"{column} {at:g}"
        cells.setdefault(name, {row: name})[title] = text
    return ReportTable(list(cells.values())).markdown()


def probes(file: Path, *losses: str) -> str:
    """Accuracies of a comparison on images; of some losses, with the seconds of an epoch.

    A loss ``TITLE=FILE:NAME`` is that of another comparison in the same folder.
    """
    if not losses:
        return scores_table(Result.read_file(file)).markdown()
    records = []
    for word in losses:
        title, _, place = word.rpartition("=")
        other, _, name = place.rpartition(":")
        row = Result.read_file(file.with_name(other) if other else file).rows[name]
        accuracies = {
            measure_title(probe): score_text(score, probe) for probe, score in row.scores.items()
        }
        seconds = "" if row.seconds is None else f"{row.seconds.mean:.2f}"
        title = title or loss_title(name)
        records.append({"loss": title, **accuracies, "seconds per epoch": seconds})
    return ReportTable(records).markdown()


def paired(file: Path, loss: str, what: str) -> str:
    """How far a loss of a cell of the ranking table lies above InfoNCE: metric, place and form."""
    differences = Result.read_file(file).differences()
    stored = {
        name: {measure: score.stored() for measure, score in scores.items()}
        for name, scores in differences.items()
    }
    return filled(f"{{{loss}/{what}}}", stored)


def text(file: Path) -> str:
    """The whole text of a file, such as a table."""
    return file.read_text(encoding="utf-8").strip()


def origin(file: Path) -> str:
    """The command, hardware and versions behind a benchmark's result, in two paragraphs."""
    result = read_json(file)
    hardware, versions = result["hardware"], result["versions"]
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"`{result['command']}` ([results](results/{file.name}))\n\n{hardware['cpu']}, "
        f"{hardware['cores']} cores; {packages}; commit {result['commit'][:12]}"
    )


_SCORE = re.compile(
    r"few_label|scores/|above_info_nce|probes|metrics/|recall@|ndcg@|\br_1\b|ranking "
)
_SETTINGS = {
    "loss": re.compile(r"loss|InfoNCE|Bayesian|SupCon|method", re.IGNORECASE),
    "temperature": re.compile(r"temperature|\bt=|tuned|chosen on (a |the )?validation"),
    "share": re.compile(r"share|teacher|tuned|chosen on (a |the )?validation", re.IGNORECASE),
}
_RECOMMENDERS = re.compile(r"recommender|ranking|own-loop|lightgcn")


def unnamed_settings(text: str) -> list[str]:
    """Return the quotes of scores whose settings the page does not name.

    The loss, the temperature and the share (or that settings were tuned) must be in the quote, in
    its paragraph or in the paragraph before it. Recommenders have no share.
    """
    paragraphs = re.split(r"\n\s*\n", text)
    wanting = []
    for before, paragraph in zip(["", *paragraphs], paragraphs, strict=False):
        for words in re.findall(r"<!-- quote: ((?:(?!-->).)*?) -->", paragraph, re.DOTALL):
            if not _SCORE.search(words):
                continue
            named = {
                name for name, words_of in _SETTINGS.items() if words_of.search(before + paragraph)
            }
            if _RECOMMENDERS.search(words):
                named |= {"share"}
            if lacking := [name for name in _SETTINGS if name not in named]:
                wanting.append(f"{' and '.join(lacking)} of the quote '{words}'")
    return wanting


QUOTATIONS: dict[str, Callable[..., str]] = {
    "value": value,
    "table": table,
    "pivot": pivot,
    "paired": paired,
    "origin": origin,
    "text": text,
    "probes": probes,
}
"""Functions that make the text of a quote from its file and arguments, by name."""


def filled(template: str, content: object, where: Mapping[str, str] | None = None) -> str:
    """A template such as ``{a/b:~.2f} of {n}`` filled with the content at its places."""

    def shown(field: re.Match[str]) -> str:
        place, _, form = field[1].partition(":")
        value = taken(content, place, where)
        if form.endswith("p"):
            value, form = 100 * value, f"{form[:-1]}f"
        text = format(value, form.removeprefix("~"))
        return re.sub(r"^([+-]?)0\.", r"\1.", text) if form.startswith("~") else text

    return re.sub(r"\{(.*?)\}", shown, template)


def taken(content: Any, place: str, where: Mapping[str, str] | None = None) -> Any:
    """The value at a place in nested mappings and lists.

    Args:
        content: as from a JSON file, or the rows of a CSV file.
        place: keys with "/" between them.
        where: keeps only the records with these values.

    Raises:
        ValueError: if there is nothing, or if several records match instead of one.
    """
    if where and isinstance(content, list):
        content = [record for record in content if _matches(record, where)]
    if not place:
        return content
    key, _, rest = place.partition("/")
    if isinstance(content, Mapping) and key in content:
        return taken(content[key], rest, where)
    if key in _REDUCTIONS:
        records = list(content.values()) if isinstance(content, Mapping) else content
        return _REDUCTIONS[key](records, [taken(record, rest) for record in records])
    if isinstance(content, list) and key.isdigit():
        return taken(content[int(key)], rest, where)
    if isinstance(content, list):
        if len(content) != 1:
            raise ValueError(f"{len(content)} records match, expected one")
        return taken(content[0], place, where)
    raise ValueError(f"there is nothing at {place}")


def _matches(record: object, where: Mapping[str, str]) -> bool:
    """Whether a record has these values; ``a|b`` allows two of them, and 1 is also 1.0."""
    return not isinstance(record, Mapping) or all(
        key in record
        and str(record[key]).removesuffix(".0")
        in [one.removesuffix(".0") for one in text.split("|")]
        for key, text in where.items()
    )


_REDUCTIONS: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "count": lambda records, _: len(records),
    "max": lambda _, values: max(values),
    "min": lambda _, values: min(values),
    "largest": lambda _, values: max(map(abs, values)),
}
"""Functions that reduce records, and their values at a place, to one value."""


def _content(file: Path) -> object:
    """The content of a CSV or JSON file."""
    if file.suffix != ".csv":
        return read_json(file)
    return pl.read_csv(file, infer_schema_length=None).rows(named=True)


def main() -> None:
    """Update the quotes of pages, and of all pages in folders."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="Markdown files, or folders of them")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on old numbers")
    chosen = parser.parse_args()
    for path in chosen.paths:
        for page in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
            text = page.read_text(encoding="utf-8")
            try:
                written = refreshed(text, page.parent)
            except ValueError as error:
                parser.error(f"{page}: {error}")
            for wanting in unnamed_settings(text):
                parser.error(f"{page}: name the {wanting}")
            if chosen.check and written != text:
                parser.error(f"{page}: numbers differ from the files; run docs/quotes.py")
            if written != text:
                page.write_text(written, encoding="utf-8")
                sys.stdout.write(f"written: {page}\n")


if __name__ == "__main__":
    main()

"""Figures in the page on recommenders that come from result files, and not from a keyboard.

    python -m bayescl.report.ranking.page docs/ranking.md results/ranking

brings the page up to date. A table stands between two comments that name its cell::

    <!-- cell ml-100k-author-mf -->
    <!-- end -->

and a number in the text is followed by a comment with its file, its place and its form::

    .3588<!-- ml-100k-author-mf; losses/bayesian/metrics/recall@20/mean; .4f -->

Places with ``paired`` or ``best`` in front are computed: ``paired/bayesian/ndcg@20/mean`` is the
difference to InfoNCE, ``best/recall@20`` the highest mean of any loss.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl._files import write_atomically
from bayescl.report.ranking.differences import paired_differences
from bayescl.report.ranking.table import cell_markdown
from bayescl.runs.folder import read_json

NUMBER = re.compile(r"(\S+?)<!-- (?P<cell>[\w.-]+); (?P<place>[^;]+); (?P<form>\S+) -->")
TABLE = re.compile(r"<!-- cell (?P<cell>[\w.-]+) -->\n.*?<!-- end -->", re.DOTALL)


def refreshed(text: str, folder: Path) -> str:
    """The page with every table and number as the files have it now.

    Args:
        text: the page.
        folder: where the cells are.

    Returns:
        The page; the same if it was up to date.

    Raises:
        ValueError: if a file is missing or has nothing at a place.
    """
    cells: dict[str, dict[str, Any]] = {}

    def cell(name: str) -> dict[str, Any]:
        if name not in cells:
            file = folder / f"{name}.json"
            if not file.is_file():
                raise ValueError(f"there is no {file}")
            cells[name] = read_json(file)
        return cells[name]

    def table(match: re.Match[str]) -> str:
        name = match["cell"]
        return f"<!-- cell {name} -->\n{cell_markdown(cell(name))}\n<!-- end -->"

    def number(match: re.Match[str]) -> str:
        value = taken(cell(match["cell"]), match["place"])
        old, comment = match[1], match[0][len(match[1]) :]
        lead = re.match(r"[(*|]*", old)
        shown = f"{value:{match['form']}}"
        shown = re.sub(r"^([+-]?)0\.", r"\1.", shown) if match["form"].endswith("4f") else shown
        return f"{lead[0] if lead else ''}{shown}{comment}"

    return NUMBER.sub(number, TABLE.sub(table, text))


def taken(cell: Mapping[str, Any], place: str) -> Any:
    """What a cell has at a place.

    Example:
        >>> taken({"losses": {"hard": {"epochs": 5}}}, "losses/hard/epochs")
        5
    """
    first, *rest = place.split("/")
    found: Any = cell
    if first == "paired":
        loss, metric, *rest = rest
        found = paired_differences(cell, metric)[loss]
    elif first == "best":
        metric, *rest = rest
        found = max(entry["metrics"][metric]["mean"] for entry in cell["losses"].values())
    else:
        rest = [first, *rest]
    for key in rest:
        if not isinstance(found, Mapping) or key not in found:
            raise ValueError(f"there is nothing at {place}")
        found = found[key]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Bring a page up to date."""
    page, folder = map(Path, sys.argv[1:] if arguments is None else arguments)
    write_atomically(page, refreshed(page.read_text(encoding="utf-8"), folder))


if __name__ == "__main__":
    main()

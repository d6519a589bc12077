"""Run an example with our line and with the library's own line, as its page shows them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def changed_line(page: str) -> tuple[str, str]:
    """The line that a page's first diff takes away, and the line that it puts in its place."""
    text = (ROOT / "docs" / "integrations" / page).read_text()
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0].splitlines()
    taken = [line[1:] for line in diff if line.startswith("-")]
    put = [line[1:] for line in diff if line.startswith("+")]
    assert len(taken) == len(put) == 1, f"{page} must open with a diff of one line"
    return taken[0], put[0]


def both_ways(page: str, example: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names that the example ends with: with the library's own line, and with ours."""
    theirs, ours = changed_line(page)
    source = (ROOT / "examples" / example).read_text()
    assert source.splitlines().count(ours) == 1, f"{example} must hold the line of {page}"
    original = folder / example
    original.write_text(source.replace(ours, theirs))
    return runpy.run_path(str(original)), runpy.run_path(str(ROOT / "examples" / example))

"""Which releases pages and modules say that they were tested with; needs no other library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "integrations"
MODULES = ROOT / "src" / "bayescl" / "integrations"


def pins() -> dict[str, str]:
    """What `make test-integrations` installs, on the newest Python."""
    files = (ROOT / "constraints.txt", ROOT / "tests" / "integrations" / "constraints.txt")
    found = {}
    for file in files:
        for name, version, marker in re.findall(r"^([\w-]+)==(\S+)(.*)$", file.read_text(), re.M):
            if "<" not in marker:
                found[name.lower().replace("_", "-")] = version
    return found


def rows() -> list[list[str]]:
    """Library, extra, tested release and minimum, from the page."""
    table = (PAGES / "index.md").read_text().split("| tested |", 1)[1].split("\n\n", 1)[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_page_names_the_release_that_is_installed_and_the_minimum_asked_for(row) -> None:
    library, _, tested, minimum = row
    assert tested == pins()[library.lower().replace("_", "-")]
    asked = re.search(
        rf'"{re.escape(library)}(?:\[\w+\])?>=([\d.]+)"', (ROOT / "pyproject.toml").read_text()
    )
    assert minimum == ("" if asked is None else asked[1])


@pytest.mark.parametrize("file", [*PAGES.glob("*.md"), *MODULES.glob("*.py")], ids=lambda f: f.name)
def test_what_a_file_says_it_was_tested_with_is_what_is_installed(file: Path) -> None:
    known = {**pins(), "open-clip": pins()["open-clip-torch"]}
    said = re.findall(r"Tested (?:with|against) (.*?)[.:](?:\s|$)", file.read_text(), re.DOTALL)
    for sentence in said:
        for library, version in re.findall(r"([\w-]+) ([\d.]*\d)", sentence):
            pinned = known[library.lower().replace("_", "-")]
            assert (pinned + ".").startswith(version + "."), f"{library} {version}, not {pinned}"

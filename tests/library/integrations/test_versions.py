"""Which releases pages and modules say that they were tested with; needs no other library."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "integrations"
MODULES = ROOT / "src" / "bayescl" / "integrations"


def pins() -> dict[str, str]:
    """What `make test-integrations` installs, on the newest Python."""
    files = (
        ROOT / "constraints.txt",
        ROOT / "tests" / "library" / "integrations" / "constraints.txt",
    )
    text = "\n".join(file.read_text() for file in files)
    lines = re.findall(r"^([\w-]+)==(\S+)(.*)$", text, re.M)
    return {name.lower().replace("_", "-"): pin for name, pin, marker in lines if "<" not in marker}


def rows() -> list[list[str]]:
    """Library, extra, tested release and minimum, from the page."""
    table = (PAGES / "index.md").read_text().split("| tested |", 1)[1].split("\n\n", 1)[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_names_the_releases_that_are_installed_and_the_minimum_asked_for():
    project = (ROOT / "pyproject.toml").read_text()
    for library, _, tested, minimum in rows():
        assert tested == pins()[library.lower().replace("_", "-")]
        asked = re.search(rf'"{re.escape(library)}(?:\[\w+\])?>=([\d.]+)(?:,<\d+)?"', project)
        assert minimum == ("" if asked is None else asked[1])


def test_what_a_file_says_it_was_tested_with_is_what_is_installed():
    known = {**pins(), "open-clip": pins()["open-clip-torch"]}
    tested = re.compile(r"Tested (?:with|against) (.*?)[.:](?:\s|$)", re.DOTALL)
    for file in (*PAGES.glob("*.md"), *MODULES.glob("*.py")):
        for sentence in tested.findall(file.read_text()):
            for library, version in re.findall(r"([\w-]+) ([\d.]*\d)", sentence):
                pin = known[library.lower().replace("_", "-")]
                assert f"{pin}.".startswith(f"{version}."), f"{file}: {library} {version}, {pin}"

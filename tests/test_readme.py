"""What the front page shows is what the committed results say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayescl_lab.cli._app import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_that_the_readme_shows_exists() -> None:
    known = COMMANDS
    shown = re.findall(r"^bayescl ([a-z ]+?)(?= -| [A-Z.]| \S*/| results|$)", README, re.MULTILINE)
    assert shown
    for words in shown:
        assert any(words.startswith(name) for name in known), words


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_every_link_of_the_readme_leads_somewhere(link: str) -> None:
    assert link.startswith("https://") or (ROOT / link).exists()


def test_the_example_of_the_readme_runs() -> None:
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    for block in code:
        exec(compile(block, "README.md", "exec"), {})

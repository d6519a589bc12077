import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from ranking_data import write_groups

from bayescl_lab.cli import main
from reproduction.__main__ import PROGRAM


class Outcome(NamedTuple):
    """What a command line came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def reproduce(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path, few_draws
) -> Callable[[str], Outcome]:
    """Run a command line in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Outcome:
        capsys.readouterr()
        status = main(shlex.split(line), PROGRAM)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def bought(reproduce, tmp_path) -> Path:
    """A table of purchases, whose items come in three groups as users do."""
    return write_groups(tmp_path)

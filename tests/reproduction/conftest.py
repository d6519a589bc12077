import pytest
from ranking_data import write_groups

from reproduction.__main__ import PROGRAM
from tests.lab.cli.conftest import command_lines


@pytest.fixture
def reproduce(capsys, monkeypatch, tmp_path, few_draws):
    """Run a command line in an empty folder of its own."""
    return command_lines(capsys, monkeypatch, tmp_path, PROGRAM)


@pytest.fixture
def bought(reproduce, tmp_path):
    """A table of purchases, whose items come in three groups as users do."""
    return write_groups(tmp_path)

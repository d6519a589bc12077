"""A result names the command that was typed."""

import sys

import pytest

from bayescl_lab.runs.provenance import command_line


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("/a/bin/bayescl train images", "bayescl train images"),
        ("/a/bayescl_lab/cli/__main__.py train images", "bayescl train images"),
        ("/b/lab/x.py -k 3", "x.py -k 3"),
    ],
)
def test_a_command_is_recorded_without_folders_of_this_machine(monkeypatch, argv, expected):
    monkeypatch.setattr(sys, "argv", argv.split())
    assert command_line() == expected

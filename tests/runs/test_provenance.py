"""A result names the command that was typed."""

from __future__ import annotations

import sys

import pytest

from bayescl_lab.runs.provenance import command_line


@pytest.mark.parametrize(
    ("typed", "argv", "expected"),
    [
        ("/a/python /a/bin/bayescl train images", "/a/bin/bayescl train", "bayescl train images"),
        ("/a/python3 -m lab.x digits", "/b/lab/x.py digits", "python3 -m lab.x digits"),
        ("python lab/x.py -k 3", "lab/x.py -k 3", "python lab/x.py -k 3"),
        ("python /b/lab/x.py", "/b/lab/x.py", "python x.py"),
    ],
)
def test_a_command_is_recorded_as_typed_without_folders_of_this_machine(
    monkeypatch, typed, argv, expected
):
    monkeypatch.setattr(sys, "orig_argv", typed.split())
    monkeypatch.setattr(sys, "argv", argv.split())
    assert command_line() == expected

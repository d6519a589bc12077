"""Progress without a terminal: lines that tell how far a command is, and not too many."""

from __future__ import annotations

import pytest

from bayescl_lab.cli._console import EpochBar


def test_without_a_terminal_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("bayescl_lab.cli._console.time.monotonic", lambda: now[0])
    with EpochBar(60) as bar:
        for done in range(1, 61):
            now[0] += 1.0
            bar.tell(f"hard-seed{done // 30}", done)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 5
    assert lines[0] == "hard-seed0: 11 of 60 epochs"

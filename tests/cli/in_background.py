"""Commands that run in a process of their own, to be interrupted or killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bayescl_lab.cli import main

SECONDS = 300

# A suite that a shell runs in its background ignores the signal, and children inherit that.
_PROGRAM = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module('bayescl_lab.cli', run_name='__main__', alter_sys=True)
"""


def start(line: str, folder: Path, **options) -> subprocess.Popen[str]:
    """Start a command line in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *line.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for(process: subprocess.Popen[str], file: Path) -> None:
    """Wait until a command has written a file, or has ended."""
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and not file.is_file() and time.monotonic() < deadline:
        time.sleep(0.01)


def command(line: str, folder: Path) -> None:
    """Run a command line in a folder, in a process that has nothing else to do."""
    os.chdir(folder)
    main(line.split())

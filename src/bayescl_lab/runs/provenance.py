"""Provenance of a result: versions, hardware, commit and command."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from bayescl_lab._cores import usable_cores

_PACKAGES = ("bayescl", "torch", "lightning", "numpy", "numba", "scikit-learn")


def provenance() -> dict[str, object]:
    """The provenance of a number, as plain values for a result file."""
    return {
        "command": command_line(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": git_commit(),
        "versions": versions(),
        "hardware": hardware(),
    }


def command_line() -> str:
    """The command of this process as it was typed, without the folders of this machine."""
    typed = [Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]
    if sys.argv[0] not in typed:  # python -m, python -c
        return shlex.join(typed)
    place, script = typed.index(sys.argv[0]), Path(sys.argv[0])
    if script.suffix != ".py":  # an installed command
        return shlex.join([script.name, *typed[place + 1 :]])
    typed[place] = script.name if script.is_absolute() else str(script)
    return shlex.join(typed)


def versions() -> dict[str, str]:
    """Versions of Python, bayescl and the libraries that affect results."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def hardware() -> dict[str, object]:
    """The processors of this machine and how many threads torch uses."""
    return {
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
    }


@cache
def git_commit() -> str | None:
    """The commit of the checkout that this package lies in, with "+" if files differ from it.

    It is that of the first call, since the code of this process does not change either.
    """
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # else it is somebody else's
        return _git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    result = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return result.stdout.strip()


def _cpu_model() -> str:
    """The processor's name as the system gives it."""
    with suppress(OSError):
        if line := re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()):
            return line[1]
    return platform.processor() or platform.machine()

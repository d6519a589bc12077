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

_PACKAGES = ("bayescl", "torch", "lightning", "numpy", "scikit-learn")


def provenance() -> dict[str, object]:
    """Return the provenance of a result as plain values."""
    return {
        "command": command_line(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": git_commit(),
        "versions": versions(),
        "hardware": hardware(),
    }


def command_line() -> str:
    """Return the command of this process, without folders of this machine."""
    program, *words = Path(sys.argv[0]), *sys.argv[1:]
    package = program.parent.name
    if program.name != "__main__.py":
        return shlex.join([program.name, *words])
    return shlex.join([*(["bayescl"] if package == "cli" else ["python", "-m", package]), *words])


def versions() -> dict[str, str]:
    """Return the versions of Python, bayescl and the libraries that affect results."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def hardware() -> dict[str, object]:
    """Return the processors of this machine and the number of torch's threads."""
    return {
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.system(),
    }


@cache
def git_commit() -> str | None:
    """Return the commit of this package's checkout, with "+" if files have changed.

    The result of the first call is cached, because the imported code does not change either.
    """
    try:
        # This fails if the checkout is of another project.
        _git("ls-files", "--error-unmatch", Path(__file__).name)
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
    """Return the name of the processor."""
    with suppress(OSError):
        if line := re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text()):
            return line[1]
    return platform.processor() or platform.machine()

"""Provenance of a result: versions, hardware, commit and command."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from bayescl_lab._cores import usable_cores

_PACKAGES = ("torch", "lightning", "kornia", "numpy", "numba", "scikit-learn")


def provenance() -> dict[str, object]:
    """The provenance of a number, as plain values for a result file.

    Returns:
        ``versions`` of Python, bayescl and its dependencies, ``hardware``, the git ``commit`` of a
        source checkout (else None), the ``command`` and the time ``started``.
    """
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
    installed = {"python": platform.python_version(), "bayescl": version("bayescl")}
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
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
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        tracked = _git(folder, "ls-files", Path(__file__).name)
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    if not tracked:  # installed into somebody else's checkout
        return None
    return commit + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    """The output of a git command."""
    result = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return result.stdout.strip()


def _cpu_model() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

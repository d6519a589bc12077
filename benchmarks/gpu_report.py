"""The result files of ``gpu.py``: JSON with provenance, and tables."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from gpu_journal import Journal, is_measured

from bayescl_lab.runs.provenance import git_commit, hardware, versions

Items = dict[str, Any]
"""A section's values by item."""
TARGET_SECONDS = 6.0
"""Per epoch of ResNet-50 on 50,000 images of CIFAR-10's size; the paper says 82."""
PAPER_SECONDS = 82.0


def origin(device: str, *, quick: bool) -> dict[str, Any]:
    """What values must have in common to stand in one report."""
    found = hardware()
    return {
        "commit": git_commit(),
        "processor": found["cpu"] if device == "cpu" else found["gpu"],
        "device": device,
        "quick": quick,
        "torch": torch.__version__,
        "triton": library("triton"),
    }


def library(name: str) -> str | None:
    """An installed version."""
    with suppress(PackageNotFoundError):
        return version(name)
    return None


def machine() -> dict[str, Any]:
    """The device and what is needed to compile for it."""
    found: dict[str, Any] = {"c_compiler": shutil.which("cc") or shutil.which("gcc")}
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": device.name,
            "compute_capability": f"{device.major}.{device.minor}",
            "multiprocessors": device.multi_processor_count,
            "memory_gib": round(device.total_memory / 2**30, 1),
            "shared_memory_of_a_block": getattr(device, "shared_memory_per_block_optin", None),
        }
        with suppress(OSError, subprocess.SubprocessError):
            query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20)
            found["driver"] = done.stdout.split("\n")[0].strip()
    return found


def write(journal: Journal, seconds: float, command: str) -> Path:
    """Write what there is so far as JSON and Markdown, and return the path of the first."""
    result = {
        "date": journal.path.name[:10],
        "command": command,
        **journal.origin,
        "machine": machine(),
        "hardware": hardware(),
        "versions": versions() | {"cuda": torch.version.cuda, "triton": library("triton")},
        "seconds_of_the_last_call": round(seconds, 1),
        "sections": journal.sections,
    }
    path = journal.path.with_suffix(".json")
    for target, text in (
        (path, json.dumps(result, indent=1) + "\n"),
        (path.with_suffix(".md"), markdown(result)),
    ):
        aside = target.with_name(target.name + ".part")
        aside.write_text(text)
        aside.replace(target)
    return path


def markdown(result: dict[str, Any]) -> str:
    """The tables of a result, for people."""
    lines = [f"# GPU benchmark, {result['date']}", "", f"`{result['command']}`", ""]
    lines += [f"{result['processor']}, commit {result['commit']}", ""]
    lines += [f"{json.dumps(result['machine'])}, {json.dumps(result['versions'])}", ""]
    if result["quick"]:
        lines += ["A rehearsal at small sizes: the figures measure nothing.", ""]
    for name, items in result["sections"].items():
        measured = {item: value for item, value in items.items() if is_measured(value)}
        if name in TABLES and measured:
            lines += [f"## {name}", "", *TABLES[name](measured), ""]
        missing = {item: value for item, value in items.items() if not is_measured(value)}
        lines += [f"- {name}, {item}: {_why(missing[item])}" for item in missing]
        lines += [""] if missing else []
    return "\n".join(lines)


def _why(value: dict[str, Any]) -> str:
    """Why there is no value, in a line."""
    words = str(value.get("left_out") or f"failed, {value['error']}")
    return " ".join(words.split())[:500]


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|---" * len(cells) + "|"]


def _accuracy(items: Items) -> list[str]:
    return _head("engine", "loss error", "gradient error") + [
        _row(name, f"{row['loss_error']:.1e}", f"{row['gradient_error']:.1e}")
        for name, row in items.items()
    ]


def _tests(items: Items) -> list[str]:
    return [f"{name}: {' '.join(row['summary'])}" for name, row in items.items()]


def _kernels(items: Items) -> list[str]:
    return _head("arithmetic", "kernel", "batch", "tile chosen", "median ms") + [
        _row(
            row["arithmetic"],
            row["kernel"],
            f"{row['batch']:,}",
            row["tile"],
            f"{row['median_ms']:.3f}",
        )
        for row in items.values()
    ]


def _tiles(items: Items) -> list[str]:
    lines = ["The default first; difference: relative, from the default's result", ""]
    lines += _head("arithmetic", "kernel", "tile", "median ms", "difference")
    return lines + [
        _row(
            row["arithmetic"],
            row["kernel"],
            row["tile"],
            f"{row['median_ms']:.3f}",
            f"{row['difference']:.1e}",
        )
        for row in items.values()
    ]


def _speed(items: Items) -> list[str]:
    rows = list(items.values())
    batches = sorted({row["batch"] for row in rows})
    lines = ["Forward and backward, two views, median ms (extra MiB)", ""]
    lines += _head("loss", *(f"B = {batch:,}" for batch in batches))
    for name in dict.fromkeys(row["method"] for row in rows):
        cells = {
            row["batch"]: f"{row['median_ms']:.2f} ({row['extra_mib']:.0f})"
            for row in rows
            if row["method"] == name
        }
        lines.append(_row(name, *(cells.get(batch, "-") for batch in batches)))
    lines += ["", "The fastest engine, and how many times as fast as the next", ""]
    lines += _head("loss", "arithmetic of fused", *(f"B = {batch:,}" for batch in batches))
    for objective, label, fastest in _fastest_engines(items):
        cells = {
            batch: f"{engine} ({lead:.1f})" if lead else f"{engine} alone"
            for batch, (engine, lead) in fastest.items()
        }
        lines.append(_row(objective, label, *(cells.get(batch, "-") for batch in batches)))
    return [*lines, "", "By these times alone:", "", *implied_rule(items)]


def implied_rule(items: Items) -> list[str]:
    """From which batch on the fused engine was the fastest: the rule that ``auto`` would follow.

    Embeddings in half precision are compared with the other engines' float32, which is what they
    convert to.
    """
    lines = []
    for objective, label, fastest in _fastest_engines(items):
        losing = [batch for batch, (engine, _) in fastest.items() if engine != "fused"]
        winning = [batch for batch in fastest if not losing or batch > max(losing)]
        when = f"from B = {min(winning):,} on" if winning else "at no batch that was measured"
        lines.append(f"- {objective}, {label}: `auto` would choose fused {when}")
    return lines


def _fastest_engines(
    items: Items,
) -> Iterator[tuple[str, str, dict[int, tuple[str, float | None]]]]:
    """By loss and arithmetic: the fastest engine at each batch, and its lead over the next."""
    rows = [row for row in items.values() if "engine" in row]
    fused = [row for row in rows if row["engine"] == "fused"]
    for objective, label in dict.fromkeys((row["objective"], row["arithmetic"]) for row in fused):
        found: dict[int, tuple[str, float | None]] = {}
        for batch in sorted({row["batch"] for row in rows}):
            times = {
                row["engine"]: row["median_ms"]
                for row in rows
                if (row["batch"], row["objective"]) == (batch, objective)
                and row.get("arithmetic", label) == label
            }
            if times:
                first, *others = sorted(times, key=times.__getitem__)
                lead = times[others[0]] / times[first] if others else None
                found[batch] = (first, lead)
        yield objective, label, found


def _training(items: Items) -> list[str]:
    rows = list(items.values())
    parts = list(rows[0]["parts_of_a_step"]["shares"])
    lines = [
        f"{rows[0]['images']:,} random images of CIFAR-10's size, batch {rows[0]['batch_size']} "
        f"(target for ResNet-50: {TARGET_SECONDS:g} s per epoch; the paper: {PAPER_SECONDS:g} s)",
        "",
    ]
    lines += _head("network, loss", "s per epoch", "images/s", "whole step, ms", *parts)
    for name, row in items.items():
        step = row["parts_of_a_step"]
        cells = [
            f"{step['milliseconds'][part]:.2f} ms ({100 * step['shares'][part]:.1f} %)"
            for part in parts
        ]
        note = f" (not compiled: {row['why_not_compiled']})" if row["why_not_compiled"] else ""
        lines.append(
            _row(
                name + note,
                f"{row['seconds_per_epoch']:.2f}",
                f"{row['images_per_second']:,.0f}",
                f"{step['whole_step_ms']:.2f}",
                *cells,
            )
        )
    return lines


def _trained(items: Items) -> list[str]:
    plan = items["plan"]
    trained = {name: row for name, row in items.items() if name != "plan"}
    lines = [
        f"{plan['data']}, epochs: {plan['epochs']}. One seed each: "
        "no difference between the losses can be read off.",
        "",
    ]
    if not trained:
        return lines
    probes = [name for name in next(iter(trained.values()))["probes"] if "spread" not in name]
    lines += _head("loss", "s per epoch", *probes)
    for name, row in trained.items():
        cells = [f"{100 * row['probes'][probe]:.1f}" for probe in probes]
        title = name.removeprefix("trained with ")
        lines.append(_row(title, f"{row['seconds_per_epoch']:.2f}", *cells))
    return lines


TABLES = {
    "accuracy": _accuracy,
    "tests": _tests,
    "tiles": _tiles,
    "kernels": _kernels,
    "speed": _speed,
    "training": _training,
    "cifar10": _trained,
}
"""How each section is shown."""

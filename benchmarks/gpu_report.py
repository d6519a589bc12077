"""What the values of ``gpu.py`` belong to, and the page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from gpu_journal import Journal, is_measured

from bayescl_lab.runs.provenance import git_commit, hardware, versions

Items = dict[str, Any]
"""A section's values by item."""
TITLES = {
    "kernels": "Each kernel alone, with each of its tiles, the default first",
    "speed": "Forward and backward of two views, median ms (extra MiB)",
    "training": "Random images of CIFAR-10's size; target for ResNet-50: 6 s per epoch "
    "(the paper: 82)",
    "cifar10": "One seed each: no difference between the losses can be read off",
}


def origin(device: str, *, quick: bool) -> dict[str, Any]:
    """What values must have in common to stand in one report: code, device and size."""
    found = {"commit": git_commit(), "device": device, "quick": quick}
    found |= {"hardware": hardware(), "versions": versions() | {"cuda": torch.version.cuda}}
    with suppress(PackageNotFoundError):
        found["versions"]["triton"] = version("triton")
    if device == "cuda":
        about = torch.cuda.get_device_properties(0)
        found["compute_capability"] = f"{about.major}.{about.minor}"
        found["multiprocessors"] = about.multi_processor_count
        found["memory_gib"] = round(about.total_memory / 2**30, 1)
    return found


def write(journal: Journal, seconds: float, command: str) -> Path:
    """Write a page of what there is so far beside the journal, and return its path."""
    lines = ["# GPU benchmark", "", f"`{command}`, {seconds:.0f} s in the last call", ""]
    lines += [json.dumps(journal.origin), ""]
    if journal.origin["quick"]:
        lines += ["A rehearsal at small sizes: the figures measure nothing.", ""]
    for name, items in journal.sections.items():
        measured = {item: value for item, value in items.items() if is_measured(value)}
        lines += [f"## {name}", "", TITLES.get(name, ""), ""]
        lines += [*(speed(measured) if name == "speed" else table(measured)), ""]
        for item in items.keys() - measured.keys():
            why = items[item].get("left_out") or f"failed, {items[item]['error']}"
            lines.append(f"- {name}, {item}: {' '.join(str(why).split())[:500]}")
        lines.append("")
    path = journal.path.with_suffix(".md")
    path.write_text("\n".join(lines))
    return path


def table(items: Items) -> list[str]:
    """One row an item, one column for each of its values."""
    rows = {item: dict(flat(value)) for item, value in items.items()}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    return grid(["", *columns], ([item, *map(row.get, columns)] for item, row in rows.items()))


def flat(values: Items, before: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested dictionaries, named by the way to them."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key} ")
        else:
            yield before + str(key).replace("_", " "), value


def grid(head: list[str], rows: Iterable[list[Any]]) -> list[str]:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(cell, line)) + " |" for line in lines]


def cell(value: Any) -> str:
    """A value in a table."""
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def speed(items: Items) -> list[str]:
    """Times of every method by batch, the fastest engines, and the rule that follows."""
    rows = list(items.values())
    batches = sorted({row["batch"] for row in rows})
    head = [f"B = {batch:,}" for batch in batches]
    cells = {
        (row["method"], row["batch"]): f"{row['median_ms']:.2f} ({row['extra_mib']:.0f})"
        for row in rows
    }
    methods = dict.fromkeys(row["method"] for row in rows)
    lines = grid(
        ["loss", *head], ([name, *(cells.get((name, b)) for b in batches)] for name in methods)
    )
    return [*lines, "", "By these times alone:", "", *implied_rule(items)]


def implied_rule(items: Items) -> list[str]:
    """From which batch on the fused engine was the fastest: the rule that ``auto`` would follow.

    Embeddings in half precision are compared with the other engines' float32, which is what they
    convert to.
    """
    rows = [row for row in items.values() if "engine" in row]
    leads: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        others = [
            other["median_ms"]
            for other in rows
            if other["engine"] != "fused"
            and (other["objective"], other["batch"]) == (row["objective"], row["batch"])
        ]
        if row["engine"] == "fused" and others:
            lead = leads.setdefault((row["objective"], row["arithmetic"]), {})
            lead[row["batch"]] = min(others) / row["median_ms"]
    lines = []
    for (objective, label), lead in leads.items():
        losing = max((batch for batch in lead if lead[batch] <= 1), default=0)
        winning = [batch for batch in lead if batch > losing]
        when = f"from B = {min(winning):,} on" if winning else "at no batch that was measured"
        ratios = ", ".join(f"{lead[batch]:.1f} (B = {batch:,})" for batch in sorted(lead))
        lines.append(f"- {objective}, {label}: `auto` would choose fused {when}")
        lines.append(f"  (times as fast as the next engine: {ratios})")
    return lines

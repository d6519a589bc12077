"""The result files of ``gpu.py``: JSON with provenance, and tables."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from bayescl.runs.provenance import git_commit, hardware, versions


def markdown(result: dict[str, Any]) -> str:
    """The tables of a result, for people."""
    lines = [f"# GPU benchmark, {result['date']}", "", f"`{result['command']}`", ""]
    lines += [f"{result['hardware']['gpu']}, {json.dumps(result['versions'])}", ""]
    sections = result["sections"]
    if isinstance(found := sections.get("accuracy"), dict) and "error" not in found:
        lines += ["| engine | loss error | gradient error |", "|---|---|---|"]
        for name, row in found.items():
            lines.append(f"| {name} | {row['loss_error']:.1e} | {row['gradient_error']:.1e} |")
        lines.append("")
    if isinstance(rows := sections.get("speed"), list):
        batches = sorted({row["batch"] for row in rows})
        lines += ["Forward and backward, two views, median ms (extra MiB)", ""]
        lines.append("| loss | " + " | ".join(f"B = {batch:,}" for batch in batches) + " |")
        lines.append("|---" * (len(batches) + 1) + "|")
        for name in dict.fromkeys(row["method"] for row in rows):
            cells = {row["batch"]: _cell(row) for row in rows if row["method"] == name}
            lines.append(
                f"| {name} | " + " | ".join(cells.get(batch, "-") for batch in batches) + " |"
            )
        lines.append("")
    if isinstance(rows := sections.get("kernels"), list):
        lines += ["| arithmetic | kernel | batch | median ms |", "|---|---|---|---|"]
        for row in rows:
            lines.append(
                f"| {row['arithmetic']} | {row['kernel']} | {row['batch']:,} "
                f"| {row['median_ms']:.3f} |"
            )
        lines.append("")
    for section, table in (("training", _training), ("cifar10", _trained)):
        if isinstance(found := sections.get(section), dict) and "error" not in found:
            lines += table(found)
    lines += ["Tests: " + json.dumps(sections.get("tests", "not run"))[:2000], ""]
    for name, section in sections.items():
        if isinstance(section, dict) and "error" in section:
            lines += [f"{name} failed: {section['error']}", ""]
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    if "left_out" in row:
        return str(row["left_out"])
    return f"{row['median_ms']:.2f} ({row['extra_mib']:.0f})"


def _training(found: dict[str, Any]) -> list[str]:
    """The table of the section "training"."""
    lines = [
        f"Training {found['encoder']}, {found['images']:,} random images of CIFAR-10's size, batch "
        f"{found['batch_size']} (target {found['target_seconds_per_epoch']:g} s per epoch; the "
        f"paper {found['paper_seconds_per_epoch']:g} s)",
        "",
    ]
    rows = {name: row for name, row in found.items() if isinstance(row, dict)}
    parts = list(next(iter(rows.values()))["parts_of_a_step"]["shares"])
    lines.append("| loss | s per epoch | images/s | whole step, ms | " + " | ".join(parts) + " |")
    lines.append("|---" * (4 + len(parts)) + "|")
    for name, row in rows.items():
        step = row["parts_of_a_step"]
        cells = [
            f"{step['milliseconds'][part]:.2f} ms ({100 * step['shares'][part]:.1f} %)"
            for part in parts
        ]
        lines.append(
            f"| {name} | {row['seconds_per_epoch']:.2f} | {row['images_per_second']:,.0f} "
            f"| {step['whole_step_ms']:.2f} | " + " | ".join(cells) + " |"
        )
    return [*lines, ""]


def _trained(found: dict[str, Any]) -> list[str]:
    """The table of the section "cifar10"."""
    if "left_out" in found:
        return [f"cifar10: {found['left_out']}", ""]
    lines = [f"Trained on {found['data']} ({found['epochs']} epochs); {found['note']}", ""]
    probes = [
        name for name in next(iter(found["losses"].values()))["probes"] if "spread" not in name
    ]
    lines.append("| loss | s per epoch | " + " | ".join(probes) + " |")
    lines.append("|---" * (2 + len(probes)) + "|")
    for name, row in found["losses"].items():
        cells = [f"{100 * row['probes'][probe]:.1f}" for probe in probes]
        lines.append(f"| {name} | {row['seconds_per_epoch']:.2f} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def finished(folder: Path, name: str) -> dict[str, Any]:
    """The sections that the newest file of this commit and device holds whole."""
    files = sorted(folder.glob(f"????-??-??-{name}.json"))
    if not files:
        return {}
    result = json.loads(files[-1].read_text())
    if (result["commit"], result["hardware"]) != (git_commit(), hardware()):
        return {}
    return {name: section for name, section in result["sections"].items() if _is_whole(section)}


def _is_whole(section: Any) -> bool:
    """Whether nothing of a section failed or was left out for want of time."""
    if isinstance(section, list):
        return all(row.get("left_out") != "no time" for row in section)
    return not any(word in section for word in ("error", "timed_out_after", "left_out"))


def write(
    sections: dict[str, Any], seconds: float, folder: Path, command: str, name: str = "gpu"
) -> Path:
    """Write what there is so far, and return the path of the JSON file."""
    found = versions() | {"cuda": str(torch.version.cuda)}
    with suppress(PackageNotFoundError):
        found["triton"] = version("triton")
    result = {
        "date": date.today().isoformat(),
        "command": command,
        "commit": git_commit(),
        "hardware": hardware(),
        "versions": found,
        "seconds": round(seconds, 1),
        "sections": sections,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['date']}-{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(result))
    return path

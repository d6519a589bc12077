"""What the values of ``gpu.py`` belong to, and the page that shows them."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl
import torch
from gpu_journal import Journal, is_measured

from bayescl_lab.runs.provenance import git_commit, hardware, versions

TITLES = {
    "kernels": "Each kernel alone, with each of its tiles, the default first",
    "speed": "Forward and backward of two views: time, and memory beyond the embeddings",
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
        found["properties"] = str(torch.cuda.get_device_properties(0))
    return found


def write(journal: Journal, seconds: float, command: str) -> Path:
    """Write a page of what there is so far beside the journal, and return its path."""
    lines = ["# GPU benchmark", "", f"`{command}`, {seconds:.0f} s in the last call", ""]
    lines += [json.dumps(journal.origin), ""]
    if journal.origin["quick"]:
        lines += ["A rehearsal at small sizes: the figures measure nothing.", ""]
    for name, items in journal.sections.items():
        lines += [f"## {name}", "", TITLES.get(name, ""), ""]
        rows = [{"item": item, **items[item]} for item in items if is_measured(items[item])]
        if rows:
            frame = pl.json_normalize(rows, infer_schema_length=None)
            lines += [*(speed(frame) if name == "speed" else [table(frame)]), ""]
        for item, value in items.items():
            if not is_measured(value):
                why = value.get("left_out") or f"failed, {value['error']}"
                lines.append(f"- {name}, {item}: {' '.join(str(why).split())[:500]}")
        lines.append("")
    path = journal.path.with_suffix(".md")
    path.write_text("\n".join(lines))
    return path


def table(frame: pl.DataFrame) -> str:
    """A table in Markdown."""
    everything = {"tbl_rows": -1, "tbl_cols": -1, "tbl_width_chars": 10_000}
    plain = {"tbl_hide_column_data_types": True, "tbl_hide_dataframe_shape": True}
    with pl.Config(tbl_formatting="MARKDOWN", fmt_str_lengths=200, **everything, **plain):
        return str(frame)


def speed(frame: pl.DataFrame) -> list[str]:
    """Times and memory of every method by batch, and the rule that follows."""
    lines = []
    for values in ("median_ms", "extra_mib"):
        by_batch = frame.sort("batch").pivot("batch", index="method", values=values)
        lines += [values, "", table(by_batch), ""]
    return [*lines, "By these times alone:", "", *implied_rule(frame.to_dicts())]


def implied_rule(rows: list[dict[str, Any]]) -> list[str]:
    """From which batch on the fused engine was the fastest: the rule that ``auto`` would follow.

    Embeddings in half precision are compared with the other engines' float32, which is what they
    convert to.
    """
    frame = pl.DataFrame([row for row in rows if row.get("engine")], infer_schema_length=None)
    if "arithmetic" not in frame.columns:
        return []
    ours, others = (
        frame.filter((pl.col("engine") == "fused") == is_ours) for is_ours in (True, False)
    )
    others = others.group_by("objective", "batch").agg(next=pl.col("median_ms").min())
    leads = ours.join(others, ["objective", "batch"]).sort("batch")
    leads = leads.with_columns(lead=pl.col("next") / pl.col("median_ms"))
    lines = []
    for (objective, label), part in leads.group_by("objective", "arithmetic", maintain_order=True):
        losing = part.filter(pl.col("lead") <= 1)["batch"].max() or 0
        first = part.filter(pl.col("batch") > losing)["batch"].min()
        when = f"from B = {first:,} on" if first else "at no batch that was measured"
        ratios = ", ".join(
            f"{lead:.1f} (B = {batch:,})" for batch, lead in part["batch", "lead"].rows()
        )
        lines.append(f"- {objective}, {label}: `auto` would choose fused {when}")
        lines.append(f"  (times as fast as the next engine: {ratios})")
    return lines

"""Write ``benchmarks/README.md`` anew from the newest result of every benchmark.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from harness import RESULTS

HEAD = """# Benchmarks

Each script measures side by side in one run and writes a dated file to `results/`; this page is
made from the newest of each by `python benchmarks/tables.py`. `make bench` runs them all, after
installing pytorch-metric-learning and lightly, which the package itself does not need.
`python benchmarks/gpu.py` holds the fused engine against float64 on a CUDA device, measures speed
and memory there, and writes its own report; it has not been run on a device yet.

Two more scripts ask how good losses are, not how fast, and take hours rather than minutes:
`python benchmarks/compare_rivals.py` sets other people's methods against false negatives (FNC,
GloFND, NNCLR, SwAV) and an oracle that attracts beside the library's losses on images, and
`python benchmarks/banking77.py` compares losses on short questions. Both tune every method on a
validation part with the same budget, and can be stopped and called again.

Times are medians with quartiles; ratios are medians of the ratio within each round.
"""

COMPARISONS = {
    "rivals-digits": "Other methods: digits",
    "rivals-cifar10-jpeg": "Other methods: CIFAR-10 (JPEG)",
    "banking77-intents": "Questions: pairs of one intent",
    "banking77-views": "Questions: two views of one question",
}
"""Headings by the name of a comparison's files."""


def newest(name: str) -> dict[str, Any]:
    """The latest result of a benchmark."""
    path = max(RESULTS.glob(f"*-{name}.json"))
    return json.loads(path.read_text()) | {"file": path.name}


def origin(result: dict[str, Any]) -> str:
    """What produced a result, in two lines."""
    hardware, versions = result["hardware"], result["versions"]
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    where = f"{hardware['cpu']}, {hardware['cores']} cores; {packages}"
    return (
        f"`{result['command']}` ([figures](results/{result['file']}))\n\n"
        f"{where}; commit {result['commit'][:12]}\n"
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def speed() -> str:
    """Loss speed, one table per batch size."""
    result = newest("loss-speed")
    parts = ["## Speed: forward and backward on the CPU\n", origin(result)]
    rows: dict[tuple[int, int, int], list[list[str]]] = {}
    for one in result["measurements"]:
        low, high = one["quartiles_ms"]
        faster = one.get("times_faster_than_comparison")
        cells = [
            one["loss"],
            f"{one['median_ms']:.1f}",
            f"{low:.1f} - {high:.1f}",
            f"{one['ratio_to_cross_entropy']:.2f}",
            "" if faster is None else f"{faster:.1f}",
        ]
        rows.setdefault((one["batch"], one["dim"], one["threads"]), []).append(cells)
    for (batch, dim, threads), cells in rows.items():
        parts.append(f"2 x {batch} embeddings of {dim}, {threads} threads\n")
        head = ["loss", "ms", "quartiles", "x InfoNCE", "times faster than N x N"]
        parts.append(table(head, cells))
    return "\n".join(parts)


def memory() -> str:
    """Memory that a step adds."""
    result = newest("loss-memory")
    parts = ["## Memory: what one step adds\n", origin(result)]
    cells = [
        [
            one["loss"],
            f"2 x {one['batch']} x {one['dim']}",
            f"{one['median_mb']:.1f}",
            f"{min(one['extra_mb']):.1f} - {max(one['extra_mb']):.1f}",
            f"{one['ratio_to_cross_entropy']:.2f}",
        ]
        for one in result["measurements"]
    ]
    parts.append(table(["loss", "embeddings", "MB", "range", "x InfoNCE"], cells))
    return "\n".join(parts)


def scaling() -> str:
    """Candidates of all ranks."""
    result = newest("distributed-scaling")
    parts = ["## Candidates of all ranks, over gloo\n", origin(result)]
    cells = [
        [
            one["loss"],
            str(one["ranks"]),
            f"2 x {one['batch_per_rank']} x {one['dim']}",
            f"{one['median_ms']:.1f}",
            " - ".join(f"{end:.1f}" for end in one["quartiles_ms"]),
        ]
        for one in result["measurements"]
    ]
    parts.append(table(["loss", "ranks", "embeddings per rank", "ms", "quartiles"], cells))
    parts.append(
        "Two ranks that score against both ranks' candidates do twice the work each; on two cores\n"
        "the rest is the exchange.\n"
    )
    return "\n".join(parts)


def image_epoch() -> str:
    """A training step on images."""
    result = newest("image-epoch")
    size = f"{result['encoder']}, batches of {result['batch_size']}, {result['threads']} threads"
    parts = ["## Images: a training step\n", origin(result), f"{size}\n"]
    cells = [
        [
            loss,
            f"{one['seconds_per_step']:.1f}",
            " - ".join(f"{end:.1f}" for end in one["quartiles"]),
            f"{result['bayesian_over_info_nce']:.2f}" if loss == "Bayesian" else "1.00",
        ]
        for loss, one in result["losses"].items()
    ]
    parts.append(table(["loss", "s", "quartiles", "x InfoNCE"], cells))
    return "\n".join(parts)


def recommenders() -> str:
    """Epochs and full ranking of recommenders."""
    result = newest("recsys-speed")
    parts = ["## Recommenders: an epoch, and a full ranking\n", origin(result)]
    cells = [
        [
            one["what"],
            one["method"],
            f"{one['median_s']:.2f}",
            f"{one['ratio_to_infonce']:.2f}" if "ratio_to_infonce" in one else "",
            str(one.get("peak_mib", "")),
        ]
        for one in result["measurements"]
    ]
    parts.append(table(["what", "loss or score", "s", "x InfoNCE", "peak MiB"], cells))
    parts.append("Batches of 1,024 pairs, dimension 64, known items masked, Lightning included.\n")
    return "\n".join(parts)


def comparisons() -> list[str]:
    """The table of every comparison that was made."""
    found = {name: RESULTS / f"{name}.md" for name in COMPARISONS}
    return [
        f"## {COMPARISONS[name]}\n\n{path.read_text(encoding='utf-8')}"
        for name, path in found.items()
        if path.is_file()
    ]


def verdict() -> str:
    """How the newest figures stand to what was planned."""
    measured = newest("loss-speed")["measurements"]
    rows = {row["batch"]: row for row in measured if row["loss"] == "Bayesian"}
    memories = newest("loss-memory")["measurements"]
    (extra,) = (row for row in memories if (row["loss"], row["batch"]) == ("Bayesian", 4096))
    text = (
        "Against the plan for the Bayesian loss, with exact ranks: at 2 x 256 it costs "
        f"{rows[256]['ratio_to_cross_entropy']:.2f} times `F.cross_entropy` (planned: at most 1.5) "
        f"and is {rows[256]['times_faster_than_comparison']:.0f} times faster than the N x N "
        "comparison (planned: 80); at 2 x 4096 it costs "
        f"{rows[4096]['ratio_to_cross_entropy']:.2f} times as much (planned: at most 1.2) in "
        f"{extra['ratio_to_cross_entropy']:.2f} of the memory (planned: at most 0.25). Large "
        "batches share chunks out to threads, sort included; at 2 x 256 the sort, and what packs "
        "and unpacks it, run on one core beside three matrix products."
    )
    return textwrap.fill(text, 100) + "\n"


def main() -> None:
    """Write the page."""
    sections = [HEAD, verdict(), speed(), memory(), scaling(), image_epoch(), recommenders()]
    sections += comparisons()
    page = Path(__file__).parent / "README.md"
    page.write_text("\n".join(sections))


if __name__ == "__main__":
    main()

"""Comparisons on images and the paper's tables on images, as tables and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.compare.result import SECONDS, Result
from bayescl_lab.compare.summary import SPREAD, Score
from bayescl_lab.report.tables import (
    Table,
    as_markdown,
    counted,
    difference_text,
    loss_title,
    measure_title,
    score_text,
)
from bayescl_lab.runs.losses import BASELINE, ORACLE

FEW_IMAGES = 200
"""Number of images below which an accuracy has an interval."""


def probe_table(probes: Mapping[str, float], images: int | None = None) -> Table:
    """Accuracy of one encoder by every probe, with an interval if it is of few images."""
    records = []
    for probe, accuracy in probes.items():
        if not probe.endswith("_spread"):
            record = {"probe": measure_title(probe), "accuracy, %": f"{100 * accuracy:.1f}"}
            if images is not None and images < FEW_IMAGES:
                low, high = accuracy_interval(accuracy, images)
                record["95 % interval"] = f"{100 * low:.1f} to {100 * high:.1f}"
                record["images"] = str(images)
            if f"{probe}_spread" in probes:
                record["spread over draws"] = f"{100 * probes[f'{probe}_spread']:.1f}"
            records.append(record)
    return Table(records)


def accuracy_interval(accuracy: float, images: int) -> tuple[float, float]:
    """The interval (Wilson's, 95 %) of an accuracy on some images.

    Example:
        >>> [round(bound, 3) for bound in accuracy_interval(0.9, 20)]
        [0.699, 0.972]
    """
    from scipy.stats import binomtest

    interval = binomtest(round(accuracy * images), images).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def accuracy_table(result: Result) -> Table:
    """Every probe of every method, the paired difference on the first, and the gap closed."""
    few, differences, records = result.few, result.differences(), []
    for name, row in result.rows.items():
        record = {"loss": loss_title(name)}
        for probe, score in row.scores.items():
            record[measure_title(probe)] = score_text(score, probe)
        for probe in few[:1]:
            above = differences.get(name, {}).get(probe)
            text = "" if above is None else difference_text(above, probe)
            record[f"above InfoNCE, {measure_title(probe)}"] = text
        if {BASELINE, ORACLE} <= result.rows.keys():
            shares = [result.gap_closed(name, probe) for probe in few]
            column = f"oracle gap closed, {' / '.join(map(measure_title, few))}"
            record[column] = " / ".join(
                "-" if share is None else f"{100 * share:.0f} %" for share in shares
            )
        records.append(record)
    images, count = result.sizes.get(result.part), ""
    if images is not None and images < FEW_IMAGES:
        low, high = accuracy_interval(0.5, images)
        count = f" ({images} images: 50 % means {100 * low:.0f} to {100 * high:.0f} %)"
    return Table(
        records,
        f"**Accuracy on the {result.part} part{count}, in percent,** mean ± {SPREAD}; and the "
        "share of the oracle's gap closed, (loss - InfoNCE) / (oracle - InfoNCE) of the means.",
    )


PAPER_TITLES = {"linear": "top-1, %", "linear_top5": "top-5, %", SECONDS: "seconds per epoch"}
"""The paper's titles of measures."""


def paper_table(result: Result) -> Table:
    """One of the paper's tables, with its figures beside ours where they are comparable.

    Cells refer to notes as ``[1]``, ``[2]`` and so on.
    """
    records: list[dict[str, str]] = []
    notes: list[str] = []
    for row in result.rows.values():
        record = dict(row.keys)
        for measure, score in row.scores.items():
            title = PAPER_TITLES.get(measure) or f"{measure_title(measure)}, %"
            record[title] = score_text(score, measure)
            if (printed := row.printed.get(measure)) is not None:
                text = Score(printed.value, printed.spread).text("g")
                if printed.note:
                    notes.append(f"[{len(notes) + 1}] {printed.note}.")
                    text += f" [{len(notes)}]"
                record[f"paper: {title}"] = text
        records.append(record)
    spread = f"Mean ± {SPREAD} ({counted(result.seeds, 'seed')})."
    return Table(records, "", " ".join([spread, *notes]), numeric=False)


def paper_markdown(result: Result) -> str:
    """The whole page: title, protocol, table, notes, remarks, and where the figures come from."""
    text = as_markdown(
        f"# {result.title}",
        paper_table(result),
        "\n".join(f"- {remark}" for remark in result.remarks),
        origin_text(result.origin),
    )
    return f"{text}\n"


def origin_text(origin: Mapping[str, Any]) -> str:
    """Command, commit and machine; empty while they are not known."""
    if not origin:
        return ""
    hardware = origin["hardware"]
    machine = hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"
    return (
        f"`{origin['command']}`, commit {origin.get('commit')}, on {machine}; "
        f"torch {origin['versions']['torch']}."
    )

"""Comparisons on images and the paper's tables on images, as tables and Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from bayescl_lab.paper.images.tables import measure_title as paper_title
from bayescl_lab.report.tables import (
    Result,
    Table,
    as_markdown,
    counted,
    difference_text,
    loss_title,
    mean_text,
    measure_title,
    paired_differences,
)

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
    """Every probe of every loss, the paired difference on the first, and the oracle gap closed."""
    few = [probe for probe in probes_of(result) if probe.startswith("few_label_")]
    paired, records = paired_differences(result), []
    for name, entry in result["summary"]["losses"].items():
        record = {"loss": loss_title(name)}
        for probe, figures in entry["probes"].items():
            record[measure_title(probe)] = mean_text(figures, scale=100)
        for probe in few[:1]:
            difference = paired.get(name, {}).get(probe)
            text = "" if difference is None else difference_text(difference, in_points=True)
            record[f"above InfoNCE, {measure_title(probe)}"] = text
        shares = [entry["gap_closed"][probe] for probe in few] if "gap_closed" in entry else []
        column = f"oracle gap closed, {' / '.join(map(measure_title, few))}"
        record[column] = " / ".join(
            "-" if share is None else f"{100 * share:.0f} %" for share in shares
        )
        records.append(record)
    part = result["settings"]["evaluate_on"]
    images = (next(iter(result["runs"].values())).get("images") or {}).get(part)
    count = ""
    if images is not None and images < FEW_IMAGES:
        low, high = accuracy_interval(0.5, images)
        count = f" ({images} images: 50 % means {100 * low:.0f} to {100 * high:.0f} %)"
    return Table(
        records,
        f"**Accuracy on the {part} part{count}, in percent,** mean ± "
        f"{result['summary']['spread']}; and the share of the oracle's gap closed, "
        "(loss - InfoNCE) / (oracle - InfoNCE) of the means.",
    )


def probes_of(result: Result) -> list[str]:
    """Every probe of a comparison."""
    return list(next(iter(result["summary"]["losses"].values()))["probes"])


def paper_table(result: Result) -> Table:
    """One of the paper's tables, with its figures beside ours where they are comparable.

    Cells refer to notes as ``[1]``, ``[2]`` and so on.
    """
    records: list[dict[str, str]] = []
    notes: list[str] = []
    for cell in result["cells"]:
        record = dict(cell["keys"])
        for measure, entry in cell["measures"].items():
            title = paper_title(measure)
            form = ".2f" if measure == "seconds_per_epoch" else ".1f"
            record[title] = mean_text(entry, form)
            printed = cell["paper"].get(measure)
            text = "" if printed is None else mean_text({**printed, "mean": printed["value"]}, "g")
            if printed is not None and printed["note"]:
                notes.append(f"[{len(notes) + 1}] {printed['note']}.")
                text += f" [{len(notes)}]"
            record[f"paper: {title}"] = text
        records.append(record)
    spread = f"Mean ± {result['spread']} ({counted(len(result['seeds']), 'seed')})."
    return Table(records, result["protocol"], " ".join([spread, *notes]), numeric=False)


def paper_markdown(result: Result) -> str:
    """The whole page: title, protocol, table, notes, remarks, and where the figures come from."""
    hardware = result["hardware"]
    machine = hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"
    text = as_markdown(
        f"# {result['title']}",
        paper_table(result),
        "\n".join(f"- {remark}" for remark in result["remarks"]),
        f"`{result['command']}`, commit {result['commit']}, on {machine}; "
        f"torch {result['versions']['torch']}.",
    )
    return f"{text}\n"

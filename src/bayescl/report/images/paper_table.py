"""A finished table as Markdown: ours, and the paper's values beside ours where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.experiments.images.paper.table import measure_title


def table_markdown(result: Mapping[str, Any]) -> str:
    """The whole page: title, protocol, table, notes, remarks, and where the figures come from.

    Args:
        result: what :func:`~bayescl.experiments.images.paper.runner.reproduce_table` returns.
    """
    header, rows, notes = table_rows(result)
    lines = [f"# {result['title']}", "", result["protocol"], ""]
    lines += [_row(header), _row(["---"] * len(header)), *map(_row, rows), ""]
    count = len(result["seeds"])
    lines += [f"Mean ± {result['spread']} ({count} seed{'s' * (count != 1)}).", ""]
    lines += [f"[{number}] {note}.  " for number, note in enumerate(notes, start=1)]
    lines += [""] * bool(notes)
    lines += [f"- {remark}" for remark in result["remarks"]]
    lines += [""] * bool(result["remarks"])
    hardware = result["hardware"]
    machine = hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"
    lines += [
        f"`{result['command']}`, commit {result['commit']}, on {machine}; "
        f"torch {result['versions']['torch']}."
    ]
    return "\n".join(lines) + "\n"


def table_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]], list[str]]:
    """Header and rows, the paper's column blank where its values do not belong; and notes.

    A note is referred to from its cell as ``[1]``, ``[2]`` and so on.
    """
    cells = result["cells"]
    measures = list(cells[0]["measures"])
    printed = [
        measure
        for measure in measures
        if not measure.startswith("few_label_")  # nothing in the paper
    ]
    header = list(cells[0]["keys"])
    for measure in measures:
        header.append(measure_title(measure))
        if measure in printed:
            header.append(f"paper: {measure_title(measure)}")
    rows: list[list[str]] = []
    notes: list[str] = []
    for cell in cells:
        row = list(cell["keys"].values())
        for measure in measures:
            row.append(_figure(cell["measures"][measure], measure))
            if measure in printed:
                figure = cell["paper"].get(measure)
                text = "" if figure is None else _printed(figure)
                if figure is not None and figure["note"]:
                    notes.append(figure["note"])
                    text += f" [{len(notes)}]"
                row.append(text)
        rows.append(row)
    return header, rows, notes


def _figure(entry: Mapping[str, Any], measure: str) -> str:
    """Mean and spread of ours, seconds with two places and percent with one."""
    places = 2 if measure == "seconds_per_epoch" else 1
    mean = f"{entry['mean']:.{places}f}"
    return mean if entry["spread"] is None else f"{mean} ± {entry['spread']:.{places}f}"


def _printed(figure: Mapping[str, Any]) -> str:
    """A figure of the paper."""
    value = f"{figure['value']:g}"
    return value if figure["spread"] is None else f"{value} ± {figure['spread']:g}"


def _row(cells: list[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"

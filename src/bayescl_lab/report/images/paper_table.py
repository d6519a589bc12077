"""A finished table as Markdown, with the paper's values beside ours where they are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.paper.images.tables import measure_title
from bayescl_lab.report.tables import Table, counted, mean_text


def table_markdown(result: Mapping[str, Any]) -> str:
    """The whole page: title, protocol, table, notes, remarks, and where the figures come from."""
    header, rows, notes = table_rows(result)
    hardware = result["hardware"]
    machine = hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"
    parts = [
        f"# {result['title']}",
        result["protocol"],
        Table(header, rows, numeric=False).markdown(),
        f"Mean ± {result['spread']} ({counted(len(result['seeds']), 'seed')}).",
        "\n".join(f"[{number}] {note}.  " for number, note in enumerate(notes, start=1)),
        "\n".join(f"- {remark}" for remark in result["remarks"]),
        f"`{result['command']}`, commit {result['commit']}, on {machine}; "
        f"torch {result['versions']['torch']}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_rows(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]], list[str]]:
    """Header, rows and notes; the paper's column is blank where its values are not comparable.

    Cells refer to notes as ``[1]``, ``[2]`` and so on.
    """
    cells = result["cells"]
    measures = list(cells[0]["measures"])
    printed = [one for one in measures if not one.startswith("few_label_")]  # not in the paper
    header = list(cells[0]["keys"])
    for measure in measures:
        title = measure_title(measure)
        header += [title, f"paper: {title}"] if measure in printed else [title]
    rows: list[list[str]] = []
    notes: list[str] = []
    for cell in cells:
        row = list(cell["keys"].values())
        for measure in measures:
            form = ".2f" if measure == "seconds_per_epoch" else ".1f"
            row.append(mean_text(cell["measures"][measure], form))
            if measure in printed:
                figure = cell["paper"].get(measure)
                text = "" if figure is None else mean_text({**figure, "mean": figure["value"]}, "g")
                if figure is not None and figure["note"]:
                    notes.append(figure["note"])
                    text += f" [{len(notes)}]"
                row.append(text)
        rows.append(row)
    return header, rows, notes

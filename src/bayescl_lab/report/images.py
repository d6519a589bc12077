"""Comparisons on images and the paper's tables on images, as tables and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.images.probes import PROBES
from bayescl_lab.paper.images.tables import measure_title as paper_title
from bayescl_lab.report.tables import Result, Table, counted, difference_table, mean_text
from bayescl_lab.report.titles import data_title, loss_title, measure_title
from bayescl_lab.report.verdicts import comparison_verdict

_WITHOUT_INFLUENCE = ("data", "device", "evaluate_on", "channels_last")
"""Settings in which a comparison may silently differ from its tuning."""


def probe_table(probes: Mapping[str, float]) -> Table:
    """Accuracy of one encoder by every probe."""
    rows = []
    for probe, accuracy in probes.items():
        if not probe.endswith("_spread"):
            spread = probes.get(f"{probe}_spread")
            shown = "" if spread is None else f"{100 * spread:.1f}"
            rows.append([measure_title(probe), f"{100 * accuracy:.1f}", shown])
    return Table(["probe", "accuracy, %", "spread over draws"], rows)


def accuracy_table(result: Result) -> Table:
    """Every probe of every loss, the paired difference on the first, and the oracle gap closed."""
    losses, probes = result["summary"]["losses"], probes_of(result)
    few = [probe for probe in probes if probe.startswith("few_label_")]
    head = ["loss", *map(measure_title, probes)]
    rows = [
        [loss_title(name), *(mean_text(entry["probes"][probe], scale=100) for probe in probes)]
        for name, entry in losses.items()
    ]
    if few and any("paired_difference" in entry for entry in losses.values()):
        head.append(f"above InfoNCE, {measure_title(few[0])}")
        for row, entry in zip(rows, losses.values(), strict=True):
            paired = entry.get("paired_difference")
            row.append(mean_text(paired[few[0]], "+.2f", scale=100) if paired else "")
    if few and any("gap_closed" in entry for entry in losses.values()):
        head.append("oracle gap closed, " + " / ".join(map(measure_title, few)))
        for row, entry in zip(rows, losses.values(), strict=True):
            shares = [entry["gap_closed"][probe] for probe in few]
            row.append(" / ".join("-" if one is None else f"{100 * one:.0f} %" for one in shares))
    return Table(
        head,
        rows,
        title=f"**Accuracy on the {result['settings']['evaluate_on']} part, in percent,** mean ± "
        f"{result['summary']['spread']}; and the share of the oracle's gap closed, "
        "(loss - InfoNCE) / (oracle - InfoNCE) of the means.",
    )


def comparison_markdown(result: Result) -> str:
    """The accuracies of a comparison as a Markdown table."""
    return accuracy_table(result).markdown() + "\n"


def probes_of(result: Result) -> list[str]:
    """Every probe of a comparison."""
    return list(next(iter(result["summary"]["losses"].values()))["probes"])


def comparison_part(result: Mapping[str, Any], tuning: Mapping[str, Any]) -> str:
    """A comparison in Markdown: what was run, how it was tuned, accuracies, findings."""
    parts = [what_was_run(result), _how_settings_were_chosen(result, tuning)]
    for table in (accuracy_table(result), difference_table(result)):
        parts += [table.title, table.markdown()]
    parts.append("\n".join(f"- {sentence}" for sentence in comparison_verdict(result)))
    return "\n\n".join(parts)


def what_was_run(result: Mapping[str, Any]) -> str:
    """Data, encoder, epochs, seeds, command, commit and machine in a few sentences."""
    settings, hardware = result["settings"], result["hardware"]
    images = next(iter(result["runs"].values())).get("images")
    counts = ""
    if images:
        train, judged = images["train"], images[settings["evaluate_on"]]
        counts = f", {train:,} training and {judged:,} {settings['evaluate_on']} images"
    epochs = [entry["seconds_per_epoch"]["mean"] for entry in result["summary"]["losses"].values()]
    seconds = " to ".join(dict.fromkeys((f"{min(epochs):.2g}", f"{max(epochs):.2g}")))
    return (
        f"**{data_title(settings['data'])}**{counts}: {_encoder(settings)}, "
        f"{settings['epochs']} epochs of batches of {settings['batch_size']}, learning rate "
        f"{settings['lr']:g}, {counted(len(result['summary']['seeds']), 'seed')} for each loss. "
        f"`{result['command']}`, commit `{str(result['commit'])[:10]}`, on "
        f"{hardware['gpu'] or hardware['cpu']}, {counted(result['threads_per_run'], 'thread')} for "
        f"each run and {result['workers']} at a time, {seconds} seconds per epoch."
    )


def _encoder(settings: Mapping[str, Any]) -> str:
    """The encoder in a few words; older results without a choice used the small one."""
    if settings.get("encoder", "small") != "small":
        return str(settings["encoder"])
    stride = settings.get("stride", 1)
    strided = f", its first convolution with stride {stride}" if stride > 1 else ""
    return f"the small encoder of width {settings['width']}{strided}"


def _how_settings_were_chosen(result: Mapping[str, Any], tuning: Mapping[str, Any]) -> str:
    """The same budget for each loss, on the validation part."""
    sizes = {len(entry["scores"]) for entry in tuning["losses"].values()}
    chosen = "; ".join(
        f"{loss_title(loss)} {_values(values)}"
        for loss, values in tuning["choice"]["losses"].items()
    )
    criterion = tuning["criterion"]
    for probe in PROBES:
        criterion = criterion.replace(probe, measure_title(probe))
    differing = ", ".join(
        f"{name} {value}"
        for name, value in tuning.get("fixed", {}).items()
        if name not in _WITHOUT_INFLUENCE and value != result["settings"].get(name)
    )
    return (
        f"Settings were chosen by the {criterion}, with "
        f"{counted(len(tuning['seeds']), 'other seed')} and "
        f"{' or '.join(map(str, sorted(sizes)))} settings for every "
        f"loss{f' (and {differing})' * bool(differing)}: {_values(tuning['choice']['shared'])} "
        f"for all; {chosen}."
    )


def _values(settings: Mapping[str, float]) -> str:
    """Settings with their values."""
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def table_markdown(result: Result) -> str:
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


def table_rows(result: Result) -> tuple[list[str], list[list[str]], list[str]]:
    """Header, rows and notes; the paper's column is blank where its values are not comparable.

    Cells refer to notes as ``[1]``, ``[2]`` and so on.
    """
    cells = result["cells"]
    measures = list(cells[0]["measures"])
    printed = [name for name in measures if not name.startswith("few_label_")]  # in the paper
    header = list(cells[0]["keys"])
    for measure in measures:
        title = paper_title(measure)
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

"""A comparison on images in Markdown, written from its result files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy import stats

from bayescl_lab.compare.summary import exceeds_noise
from bayescl_lab.images.probes import PROBES
from bayescl_lab.report.tables import Table, bold, counted, mean_text
from bayescl_lab.report.titles import data_title, loss_title, measure_title
from bayescl_lab.report.verdicts import comparison_verdict
from bayescl_lab.runs.folder import read_json

Result = Mapping[str, Any]
"""What ``compare images`` writes as ``result.json``."""

_WITHOUT_INFLUENCE = ("data", "device", "evaluate_on", "channels_last")
"""Settings in which a comparison may silently differ from its tuning."""


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
            row.append(points(paired[few[0]]) if paired else "")
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


def difference_table(result: Result) -> Table:
    """Points above InfoNCE by every probe, a row per loss; bold beyond two standard errors."""
    seeds, probes = len(result["summary"]["seeds"]), probes_of(result)
    rows = [
        [
            loss_title(name),
            *(bold(points(paired[one]), exceeds_noise(paired[one], seeds)) for one in probes),
        ]
        for name, entry in result["summary"]["losses"].items()
        if (paired := entry.get("paired_difference"))
    ]
    by_chance = 2 * stats.t.sf(2, seeds - 1) if seeds > 1 else 1.0
    return Table(
        ["loss", *map(measure_title, probes)],
        rows,
        title="**Points above InfoNCE, paired by seed.** Bold: at least two standard errors from "
        f"0, which with {seeds} seeds chance alone does in {100 * by_chance:.0f} of 100 cases.",
    )


def comparison_markdown(result: Result) -> str:
    """The accuracies of a comparison as a Markdown table."""
    return accuracy_table(result).markdown() + "\n"


def probes_of(result: Result) -> list[str]:
    """Every probe of a comparison."""
    return list(next(iter(result["summary"]["losses"].values()))["probes"])


def points(difference: Mapping[str, Any]) -> str:
    """A paired difference in percentage points."""
    return mean_text(difference, "+.2f", scale=100)


def comparison_quote(file: Path) -> str:
    """A comparison with the tuning in ``settings.json`` beside it."""
    tuning = file.with_name("settings.json")
    if not tuning.is_file():
        raise ValueError(f"there is no file {tuning}")
    return comparison_part(read_json(file), read_json(tuning))


def probes_quote(file: Path) -> str:
    """Only the accuracies of a comparison."""
    return accuracy_table(read_json(file)).markdown()


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

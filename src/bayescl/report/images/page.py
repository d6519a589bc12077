"""The parts of a page that show a comparison: written from its figures, never by hand.

    python -m bayescl.report.images.page docs/images.md

A page marks such a part by ``<!-- comparison NAME -->`` and ``<!-- end -->``, each in a line of
its own; what stands between is replaced by what ``results/NAME`` says.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from bayescl._files import write_atomically
from bayescl.report.images.markdown import comparison_markdown, difference_markdown
from bayescl.report.images.verdict import verdict
from bayescl.report.titles import data_title
from bayescl.runs.folder import read_json
from bayescl.runs.losses import LOSSES
from bayescl.vision.probes import PROBES, probe_title

_WITHOUT_INFLUENCE = ("data", "device", "evaluate_on", "channels_last")
"""Settings in which a comparison may differ from its tuning without a word."""

_PART = re.compile(r"(<!-- comparison (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Bring a page up to date with the results beside it."""
    parser = argparse.ArgumentParser(description="Write comparisons into a Markdown page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    text = options.page.read_text(encoding="utf-8")
    write_atomically(options.page, refreshed(text, options.results))


def refreshed(text: str, results: Path) -> str:
    """A page with every marked part written anew.

    Args:
        text: the page.
        results: the folder that holds ``NAME/comparison.json`` and ``NAME/settings.json``.

    Raises:
        ValueError: if a result is missing or damaged.
    """

    def part(match: re.Match[str]) -> str:
        folder = results / match[2]
        for file in ("comparison.json", "settings.json"):
            if not (folder / file).is_file():
                raise ValueError(f"there is no file {folder / file}")
        written = comparison_part(
            read_json(folder / "comparison.json"), read_json(folder / "settings.json")
        )
        return f"{match[1]}\n{written}\n{match[3]}"

    return _PART.sub(part, text)


def comparison_part(result: Mapping[str, Any], tuning: Mapping[str, Any]) -> str:
    """A comparison in Markdown: what was run, accuracies, paired differences, verdict.

    Args:
        result: what ``compare`` writes as ``result.json``.
        tuning: what :mod:`~bayescl.experiments.images.tuning` writes as ``settings.json``.
    """
    lines = [
        _what_was_run(result),
        "",
        _how_settings_were_chosen(result, tuning),
        "",
        f"**Accuracy on the {result['settings']['evaluate_on']} part, in percent,** mean ± "
        f"{result['summary']['spread']}; and the share of the oracle's gap closed, "
        "(loss - InfoNCE) / (oracle - InfoNCE) of the means.",
        "",
        comparison_markdown(result),
        _what_bold_means(result),
        "",
        difference_markdown(result),
        *(f"- {sentence}" for sentence in verdict(result)),
    ]
    return "\n".join(lines) + "\n"


def _what_was_run(result: Mapping[str, Any]) -> str:
    """Data, encoder, epochs, seeds, command, commit and machine in a few sentences."""
    settings = result["settings"]
    images = next(iter(result["runs"].values())).get("images")
    counts = ""
    if images:
        train, judged = images["train"], images[settings["evaluate_on"]]
        counts = f", {train:,} training and {judged:,} {settings['evaluate_on']} images"
    epochs = [entry["seconds_per_epoch"]["mean"] for entry in result["summary"]["losses"].values()]
    seeds = len(result["summary"]["seeds"])
    hardware = result["hardware"]
    threads = result["threads_per_run"]
    return (
        f"**{data_title(settings['data'])}**{counts}: {_encoder(settings)}, "
        f"{settings['epochs']} epochs of batches of {settings['batch_size']}, learning rate "
        f"{settings['lr']:g}, {seeds} seed{'s' * (seeds != 1)} for each loss. "
        f"`{result['command']}`, commit `{result['commit'][:10]}`, on "
        f"{hardware['gpu'] or hardware['cpu']}, {threads} thread{'s' * (threads != 1)} for each "
        f"run and {result['workers']} at a time, {_range(min(epochs), max(epochs))} seconds per "
        "epoch."
    )


def _range(low: float, high: float) -> str:
    """Two figures that may be the same when rounded."""
    ends = dict.fromkeys((f"{low:.2g}", f"{high:.2g}"))
    return " to ".join(ends)


def _encoder(settings: Mapping[str, Any]) -> str:
    """The encoder in a few words; results from before there was a choice have the small one."""
    if settings.get("encoder", "small") != "small":
        return str(settings["encoder"])
    stride = settings.get("stride", 1)
    strided = f", its first convolution with stride {stride}" if stride > 1 else ""
    return f"the small encoder of width {settings['width']}{strided}"


def _how_settings_were_chosen(result: Mapping[str, Any], tuning: Mapping[str, Any]) -> str:
    """The same budget for each loss, on the validation part."""
    sizes = {len(entry["scores"]) for entry in tuning["losses"].values()}
    seeds = len(tuning["seeds"])
    chosen = "; ".join(
        f"{LOSSES[loss].title} {', '.join(f'{name} {value:g}' for name, value in values.items())}"
        for loss, values in tuning["choice"]["losses"].items()
    )
    shared = ", ".join(f"{name} {value:g}" for name, value in tuning["choice"]["shared"].items())
    criterion = tuning["criterion"]
    for probe in PROBES:
        criterion = criterion.replace(probe, probe_title(probe))
    differing = ", ".join(
        f"{name} {value}"
        for name, value in tuning.get("fixed", {}).items()
        if name not in _WITHOUT_INFLUENCE and value != result["settings"].get(name)
    )
    return (
        f"Settings were chosen by the {criterion}, with {seeds} other "
        f"seed{'s' * (seeds != 1)} and {' or '.join(map(str, sorted(sizes)))} settings for every "
        f"loss{f' (and {differing})' * bool(differing)}: {shared} for all; {chosen}."
    )


def _what_bold_means(result: Mapping[str, Any]) -> str:
    """How often chance alone prints a difference in bold."""
    seeds = len(result["summary"]["seeds"])
    by_chance = 2 * stats.t.sf(2, seeds - 1) if seeds > 1 else 1.0
    return (
        "**Points above InfoNCE, paired by seed.** Bold: at least two standard errors from 0, "
        f"which with {seeds} seeds chance alone does in {100 * by_chance:.0f} of 100 cases."
    )


if __name__ == "__main__":
    main()

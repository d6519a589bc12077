"""What a comparison or a training says, in two or three plain sentences: pure functions of results.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.compare.images.summary import exceeds_noise
from bayescl_lab.report.tables import counted, mean_text
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE
from bayescl_lab.runs.statistics import paired_difference

LATENT = "latent"
NO_TRUST = (
    "Give it views that agree more (a weaker augmentation), more epochs, or the number of classes "
    "(--num-classes)."
)
_HEADLINES = ("few_label_1", "knn", "linear", "ndcg@20")
"""The measures that a verdict is about; the first that there is."""


def comparison_verdict(
    result: Mapping[str, Any], trust: Mapping[str, Sequence[float]] | None = None
) -> list[str]:
    """Say which losses helped, by how much beyond the spread, and what to do next.

    Args:
        result: ``result.json`` of a comparison on images or of recommenders, or a cell of the
            ranking table.
        trust: by loss, the highest trust of each of its runs, if it has one.

    Returns:
        Sentences that name every loss. Without InfoNCE, the first loss takes its place.
    """
    of_images = "summary" in result
    losses: Mapping[str, Any] = result["summary"]["losses"] if of_images else result["losses"]
    key, form, scale, unit = ("probes", "+.2f", 100, " points") if of_images else _OF_RANKING
    names, base = list(losses), BASELINE if BASELINE in losses else next(iter(losses))
    measures = [*losses[base][key]]
    if len(names) == 1:
        return [f"Only {loss_title(base)} was trained: there is nothing to compare it with."]
    if not measures:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    headline = next((one for one in _HEADLINES if one in measures), measures[0])
    seeds = len(losses[base][key][headline]["values"])
    values = {name: losses[name][key][headline]["values"] for name in names}
    differences = {
        name: paired_difference(values[name], values[base]) for name in names if name != base
    }

    def certain(name: str) -> bool:
        return gain(name) != 0 and exceeds_noise(differences[name], seeds)

    def gain(name: str) -> float:
        return float(differences[name]["mean"])

    def told(some: Iterable[str]) -> str:
        return ", ".join(
            f"{loss_title(name)} {mean_text(differences[name], form, scale=scale)}{unit}"
            for name in some
        )

    ranked = sorted(differences, key=gain, reverse=True)
    oracles = [name for name in ranked if name in LOSSES and LOSSES[name].needs_labels]
    rivals = [name for name in ranked if name not in oracles]
    above = [name for name in rivals if certain(name) and gain(name) > 0]
    below = [name for name in rivals if certain(name) and gain(name) < 0]
    unclear = [name for name in rivals if not certain(name)]
    where = f"on {measure_title(headline)}"
    parts = [f"above {loss_title(base)} {where}: {told(above)}"] if above else []
    parts += [f"below {loss_title(base)} {where}: {told(below)}"] if below else []
    chance = f"not told from {loss_title(base)} by {counted(seeds, 'seed')} {where}"
    parts += [f"{chance}: {told(unclear)}"] if unclear else []
    said = [f"{'; '.join(parts)}."] if parts else []
    said += [_oracles(oracles, told(oracles), certain, gain, above)] if oracles else []
    said += _trusted(trust or {}, losses, base)
    said.append(_next(above, unclear, oracles, seeds, base, certain))
    return [one[:1].upper() + one[1:] for one in said]


_OF_RANKING = ("metrics", "+.4f", 1, "")


def _oracles(
    oracles: Sequence[str],
    told: str,
    certain: Callable[[str], bool],
    gain: Callable[[str], float],
    above: Sequence[str],
) -> str:
    """What a loss that knows the labels gains, and how much of that the best other loss reaches."""
    sentence = f"knowing the labels, which nobody has: {told}"
    first = ORACLE if ORACLE in oracles else oracles[0]
    if not (certain(first) and gain(first) > 0):
        return f"{sentence}; that is no certain gain, so false negatives cost little here."
    if not above:
        return f"{sentence}; none of that is reached without labels."
    share = f"{gain(above[0]) / gain(first):.0%}"
    return f"{sentence}; {loss_title(above[0])} reaches {share} of the {loss_title(first)}'s gain."


def _trusted(
    trust: Mapping[str, Sequence[float]], losses: Mapping[str, Any], base: str
) -> list[str]:
    """What became of the trust of losses that have one."""
    said = []
    for name in trust.keys() & losses.keys():
        cost = losses[name]["seconds_per_epoch"]["mean"] / losses[base]["seconds_per_epoch"]["mean"]
        if max(trust[name]) == 0:
            said.append(
                f"{loss_title(name)}: trust stayed 0, so every step was InfoNCE, at {cost:.1f} "
                f"times the cost of {loss_title(base)}. {NO_TRUST}"
            )
        elif min(trust[name]) == 0:
            none, runs = sum(one == 0 for one in trust[name]), counted(len(trust[name]), "run")
            said.append(f"{loss_title(name)}: trust stayed 0 in {none} of {runs}.")
    return said


def _next(
    above: Sequence[str],
    unclear: Sequence[str],
    oracles: Sequence[str],
    seeds: int,
    base: str,
    certain: Callable[[str], bool],
) -> str:
    """What to do next."""
    if seeds == 1:
        return "next: repeat with --seeds 4; one seed shows no spread, so nothing here is certain."
    if above:
        return f"next: train with --loss {above[0]}."
    keep = f"next: keep {loss_title(base)}"
    if oracles and not any(map(certain, oracles)):
        return f"{keep}: there is nothing here for another loss to gain."
    if unclear:
        return f"{keep}, or repeat with more than {seeds} seeds to see smaller differences."
    return f"{keep}; another temperature may change this more than another loss."


def training_verdict(loss: str, rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Say how far a trained loss came to trust its latent classes; nothing for other losses.

    Args:
        loss: the loss's name.
        rows: ``metrics.csv``, a row per epoch.

    Example:
        >>> training_verdict("latent", [{"epoch": 1, "trust": 0.0}, {"epoch": 2, "trust": 0.75}])
        ['Trust in the latent classes: 0.75 at the end, above 0 from epoch 2 of 2 on.']
        >>> training_verdict("info_nce", [{"epoch": 1, "loss": 4.0}])
        []
    """
    seen = [row for row in rows if "trust" in row]
    if not seen:
        return []
    first = next((int(row["epoch"]) for row in seen if row["trust"] > 0), None)
    if first is None:
        return [
            f"Trust in the {loss_title(loss)} stayed 0: every step was InfoNCE, and fitting the "
            f"classes cost time for nothing. {NO_TRUST}"
        ]
    return [
        f"Trust in the {loss_title(loss)}: {seen[-1]['trust']:.2f} at the end, above 0 from epoch "
        f"{first} of {int(seen[-1]['epoch'])} on."
    ]


def trust_of_runs(folder: Path) -> dict[str, list[float]]:
    """By loss, the highest trust of each run of a comparison; only of losses that have one."""
    found: dict[str, list[float]] = {}
    for file in sorted(folder.glob("runs/*/metrics.csv")):
        seen = [row["trust"] for row in RunFolder(file.parent, "").read_metrics() if "trust" in row]
        if seen and (file.parent / "config.yaml").is_file():
            loss = str(RunFolder.find(file.parent).config().get("loss"))
            found.setdefault(loss, []).append(max(seen))
    return found

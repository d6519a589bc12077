"""What a comparison or a training says, in two or three plain sentences: pure functions of results.

A difference counts if it is at least two standard errors from 0, paired by seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescl_lab.report.tables import Result, counted, mean_text, paired_differences
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE

NO_TRUST = (
    "Give it views that agree more (a weaker augmentation), more epochs, or the number of classes "
    "(--num-classes)."
)
_HEADLINES = ("few_label_1", "knn", "linear", "ndcg@20")
"""The measures that a verdict is about; the first that there is."""


def comparison_verdict(
    result: Result, trust: Mapping[str, Sequence[float]] | None = None
) -> list[str]:
    """Say which losses helped, by how much beyond the spread, and what to do next.

    Args:
        result: ``result.json`` of a comparison on images or of recommenders, or a cell of the
            ranking table.
        trust: by loss, the highest trust of each of its runs, if it has one.

    Returns:
        Sentences that name every loss. Without InfoNCE, the first loss takes its place.
    """
    losses: Mapping[str, Any] = result.get("summary", result)["losses"]
    base = BASELINE if BASELINE in losses else next(iter(losses))
    if len(losses) == 1:
        return [f"Only {loss_title(base)} was trained: there is nothing to compare it with."]
    paired = paired_differences(result, base)
    if not paired:
        return ["There are no labels to judge by: the losses cannot be told apart."]
    said = _Differences(base, paired, in_points="summary" in result).sentences()
    said[-1:-1] = _trust_sentences(trust or {}, losses, base)
    said[:0] = _tuning_sentence(result.get("tuning"))
    return [sentence[:1].upper() + sentence[1:] for sentence in said]


@dataclass(frozen=True)
class _Differences:
    """Differences of losses to a baseline, paired by seed, by loss and measure."""

    base: str
    paired: Mapping[str, Mapping[str, Any]]
    in_points: bool

    @property
    def headline(self) -> str:
        """The measure that the verdict is about."""
        measures = next(iter(self.paired.values()))
        return next((one for one in _HEADLINES if one in measures), next(iter(measures)))

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(next(iter(self.paired.values()))[self.headline]["values"])

    def gain(self, loss: str) -> float:
        """Mean difference on the headline."""
        return float(self.paired[loss][self.headline]["mean"])

    def sign(self, loss: str, measure: str) -> int:
        """1 above the baseline, -1 below it, 0 if the seeds do not tell them apart."""
        difference = self.paired[loss][measure]
        mean = difference["mean"]
        return (mean > 0) - (mean < 0) if difference["certain"] else 0

    def told(self, losses: Iterable[str]) -> str:
        """Losses with their differences on the headline."""
        form, scale, unit = ("+.2f", 100, " points") if self.in_points else ("+.4f", 1, "")
        gains = {loss: self.paired[loss][self.headline] for loss in losses}
        return ", ".join(
            f"{loss_title(loss)} {mean_text(gain, form, scale=scale)}{unit}"
            for loss, gain in gains.items()
        )

    def elsewhere(self, losses: Iterable[str], sign: int) -> str:
        """Losses with the other measures on which they are above or below the baseline."""
        parts = []
        for loss in losses:
            others = [one for one in self.paired[loss] if one != self.headline]
            on = [measure_title(one) for one in others if self.sign(loss, one) == sign]
            parts += [f"{loss_title(loss)} on {', '.join(on)}"] if on else []
        return "; ".join(parts)

    def sentences(self) -> list[str]:
        """What helped, what knowing the labels would give, and what to do next."""
        ranked = sorted(self.paired, key=self.gain, reverse=True)
        oracles = [name for name in ranked if name in LOSSES and LOSSES[name].needs_labels]
        groups: dict[int, list[str]] = {1: [], -1: [], 0: []}
        for name in ranked:
            if name not in oracles:
                groups[self.sign(name, self.headline)].append(name)
        title, seeds = loss_title(self.base), counted(self.seeds, "seed")
        words = {1: f"above {title}", -1: f"below {title}", 0: f"not told from {title} by {seeds}"}
        where = f"on {measure_title(self.headline)}"
        parts = [f"{words[at]} {where}: {self.told(some)}" for at, some in groups.items() if some]
        said = [f"{'; '.join(parts)}."] if parts else []
        better, worse = self.elsewhere(groups[-1] + groups[0], 1), self.elsewhere(groups[1], -1)
        said += [f"but above {title}: {better}."] if better else []
        said += [f"but below {title}: {worse}."] if worse else []
        said += [self.oracle_sentence(oracles, groups[1])] if oracles else []
        possible = not oracles or any(self.sign(name, self.headline) for name in oracles)
        if self.seeds == 1:
            following = "repeat with --seeds 4; one seed shows no spread, so nothing is certain."
        elif groups[1]:
            following = f"train with --loss {groups[1][0]}."
        elif better:
            following = f"keep {title}, unless those other measures matter more to you."
        elif not possible:
            following = f"keep {title}: there is nothing here for another loss to gain."
        elif groups[0]:
            following = (
                f"keep {title}, or repeat with more than {seeds} to see smaller differences."
            )
        else:
            following = f"keep {title}; another temperature may change more than another loss."
        return [*said, f"next: {following}"]

    def oracle_sentence(self, oracles: Sequence[str], above: Sequence[str]) -> str:
        """What losses that know the labels gain, and how much of it the best other one reaches."""
        sentence = f"knowing the labels, which nobody has: {self.told(oracles)}"
        first = ORACLE if ORACLE in oracles else oracles[0]
        if self.sign(first, self.headline) != 1:
            return f"{sentence}; that is no certain gain, so false negatives cost little here."
        if not above:
            return f"{sentence}; none of that is reached without labels."
        share = f"{self.gain(above[0]) / self.gain(first):.0%}"
        best, whole = loss_title(above[0]), loss_title(first)
        return f"{sentence}; {best} reaches {share} of the {whole}'s gain."


def _tuning_sentence(tuning: Mapping[str, Any] | None) -> list[str]:
    """Say which settings were chosen, and from how many; nothing without a choice."""
    if not tuning:
        return []
    tries = min(len(entry["scores"]) for entry in tuning["losses"].values())
    chosen = "; ".join(
        f"{loss_title(loss)} "
        + ", ".join(
            f"{name} {'density' if value is None else f'{value:g}'}"
            for name, value in entry["choice"].items()
        )
        for loss, entry in tuning["losses"].items()
    )
    return [f"the best of {tries} settings for every loss, by {tuning['criterion']}: {chosen}."]


def _trust_sentences(
    trust: Mapping[str, Sequence[float]], losses: Mapping[str, Any], base: str
) -> list[str]:
    """What became of the trust of losses that have one, if it stayed 0."""
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


def training_verdict(loss: str, rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Say how far a loss came to trust its latent classes, and what speaks against BPR.

    Args:
        loss: the loss's name.
        rows: ``metrics.csv``, a row per epoch.

    Example:
        >>> training_verdict("latent", [{"epoch": 1, "trust": 0.0}, {"epoch": 2, "trust": 0.75}])
        ['Trust in the latent classes: 0.75 at the end, above 0 from epoch 2 of 2 on.']
        >>> training_verdict("info_nce", [{"epoch": 1, "loss": 4.0}])
        []
    """
    if loss == "bpr":
        return ["BPR was below InfoNCE on every data set measured: compare with --loss info_nce."]
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

"""What a comparison or a table of the paper comes to, of images and recommenders alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayescl_lab.compare.summary import SPREAD, Score
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE

RESULT_FILES = ("result.json", "comparison.json")
"""Files that hold a result: of a run or comparison, and of a comparison that is kept."""

_ORIGIN = (
    *("command", "started", "commit", "hardware", "versions"),
    *("workers", "threads_per_run", "commits_of_runs"),
)
SECONDS = "seconds_per_epoch"
"""The measure of tables of time."""

_SIZES = {"judged": "users", "users_left_out": "users_left_out"}


@dataclass(frozen=True)
class Printed:
    """A figure as the paper prints it, what stands after "±", and what is wrong with it."""

    value: float
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """The figures of one method.

    Attributes:
        scores: by measure. Accuracies are shares of 1.
        settings: of its runs, but for the seed.
        seconds: per epoch, over seeds; None for what has no epochs.
        epochs: number of epochs.
        tuning: the values chosen and the score of everything tried; empty if nothing was.
        keys: what identifies the row in a table of the paper, by column.
        printed: the paper's figures by measure.
    """

    scores: Mapping[str, Score]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Score | None = None
    epochs: int | None = None
    tuning: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, Printed] = field(default_factory=dict)

    @classmethod
    def of(
        cls, runs: Sequence[Mapping[str, Any]], measures: Sequence[str] | None = None, **more: Any
    ) -> Row:
        """The row of a method, from the ``result.json`` of its runs, seed by seed.

        Only some ``measures`` are kept, if these are given.
        """
        scores = [run.get("probes", run.get("metrics", {})) for run in runs]
        first = runs[0]
        seconds = [run[SECONDS] for run in runs if SECONDS in run]
        if SECONDS in (measures or ()):
            scores = [{SECONDS: one} for one in seconds]
        return cls(
            {
                name: Score.of([one[name] for one in scores])
                for name in (scores[0] if measures is None else measures)
                if name in scores[0]
            },
            {name: value for name, value in first["settings"].items() if name != "seed"},
            Score.of(seconds) if seconds else None,
            first.get("epochs"),
            **more,
        )

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Row:
        """The row that :meth:`stored` wrote."""
        measures = stored.get("metrics", stored.get("probes"))
        seconds = stored.get("seconds_per_epoch")
        return cls(
            {name: Score.read(score) for name, score in dict(measures).items()},
            stored.get("settings", {}),
            None if seconds is None else Score.read(seconds),
            stored.get("epochs"),
            stored.get("tuning", {}),
            stored.get("keys", {}),
            {name: Printed(**one) for name, one in stored.get("printed", {}).items()},
        )

    def stored(self) -> dict[str, Any]:
        """Plain values for a file."""
        plain = {
            "keys": self.keys,
            "metrics": {name: score.stored() for name, score in self.scores.items()},
            "seconds_per_epoch": None if self.seconds is None else self.seconds.stored(),
            "epochs": self.epochs,
            "settings": self.settings,
            "tuning": self.tuning,
            "printed": {name: vars(one) for name, one in self.printed.items()},
        }
        return {name: value for name, value in plain.items() if value not in (None, {})}


@dataclass(frozen=True)
class Result:
    """Methods over seeds on the same data, with what they are compared with.

    Attributes:
        data: name of the data set.
        part: the part that all were evaluated on.
        rows: by method.
        seeds: number of seeds.
        baselines: methods in which nothing is random.
        encoder: name of the encoder.
        sizes: counts of the data.
        settings: that all methods share, and by method the values that differ.
        criterion: what tuning chose by; empty without tuning.
        title: the title of a table of the paper.
        remarks: what a reader must know.
        origin: provenance.
    """

    data: str
    part: str
    rows: Mapping[str, Row]
    seeds: int
    baselines: Mapping[str, Row] = field(default_factory=dict)
    encoder: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = ""
    title: str = ""
    remarks: Sequence[str] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Result:
        """The result in a file: one that :meth:`stored` wrote, or an older comparison on images."""
        plain = {**content, **content.get("summary", {})}
        settings = plain.get("settings", {})
        tuning = plain.get("tuning", {})
        tuned = {name: {"tuning": one} for name, one in tuning.get("losses", {}).items()}
        runs: dict[str, Any] = plain["runs"] if isinstance(plain.get("runs"), dict) else {}
        images = next(iter(runs.values())).get("images", {}) if runs else {}
        sizes = {name: plain[old] for name, old in _SIZES.items() if old in plain}
        seeds = plain["seeds"]
        return cls(
            data=plain.get("data") or settings.get("data", ""),
            part=plain.get("evaluated_on") or settings.get("evaluate_on", "test"),
            rows={
                name: Row.read({**tuned.get(name, {}), **row})
                for name, row in plain["losses"].items()
            },
            seeds=seeds if isinstance(seeds, int) else len(seeds),
            baselines={name: Row.read(row) for name, row in plain.get("baselines", {}).items()},
            encoder=plain.get("encoder") or settings.get("encoder", ""),
            sizes=plain.get("sizes") or {**images, **sizes, **plain.get("interactions", {})},
            settings=settings,
            criterion=tuning.get("criterion", plain.get("criterion", "")),
            title=plain.get("title", ""),
            remarks=tuple(plain.get("remarks", ())),
            origin=origin_of(plain),
        )

    @classmethod
    def read_all(cls, content: Mapping[str, Any]) -> list[Result]:
        """The results in a file of one or several; none in that of a run."""
        several = content.get(
            "results", [content] if "losses" in content or "summary" in content else []
        )
        return [cls.read({**content, **one}) for one in several]

    @classmethod
    def read_file(cls, file: Path) -> Result:
        """The result in a JSON file."""
        return cls.read(read_json(file))

    def stored(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "title": self.title,
            "data": self.data,
            "encoder": self.encoder,
            "evaluated_on": self.part,
            "seeds": self.seeds,
            "spread": SPREAD,
            "sizes": self.sizes,
            "criterion": self.criterion,
            "losses": {name: row.stored() for name, row in self.rows.items()},
            "baselines": {name: row.stored() for name, row in self.baselines.items()},
            "remarks": list(self.remarks),
            "settings": self.settings,
            **self.origin,
        }

    @property
    def every(self) -> dict[str, Row]:
        """Methods and baselines."""
        return {**self.rows, **self.baselines}

    @property
    def measures(self) -> list[str]:
        """Measures of every method."""
        return list(next(iter(self.rows.values())).scores)

    @property
    def few(self) -> list[str]:
        """Measures with few labels."""
        return [name for name in self.measures if name.startswith("few_label_")]

    @property
    def base(self) -> str:
        """The method that others are compared with: InfoNCE, or else the first."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    def differences(self, base: str = BASELINE) -> dict[str, dict[str, Score]]:
        """By method and measure, how far each lies above another, seed by seed.

        There are none if ``base`` was not compared.
        """
        if base not in self.rows:
            return {}
        below = self.rows[base].scores
        return {
            name: {measure: score - below[measure] for measure, score in row.scores.items()}
            for name, row in self.rows.items()
            if row.scores and name != base
        }

    def gap_closed(self, name: str, measure: str) -> float | None:
        """(method - InfoNCE) / (oracle - InfoNCE) of the means.

        None if the oracle is not above InfoNCE, or one of them was not compared.
        """
        if not {BASELINE, ORACLE} <= self.rows.keys():
            return None
        baseline, oracle, method = (
            self.rows[one].scores[measure].mean for one in (BASELINE, ORACLE, name)
        )
        return (method - baseline) / (oracle - baseline) if oracle > baseline else None


def origin_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance in a file."""
    return {name: content[name] for name in _ORIGIN if content.get(name) is not None}


def is_percent(measure: str) -> bool:
    """Whether a measure is an accuracy, which is shown in percent; metrics of rankings are not."""
    return "@" not in measure


def needs_labels(method: str) -> bool:
    """Whether a method is an oracle."""
    return method in LOSSES and LOSSES[method].needs_labels

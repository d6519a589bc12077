"""Tables, figures over seeds and titles as text, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape
from scipy import stats

from bayescl.figures import NEUTRAL
from bayescl_lab.compare.summary import exceeds_noise, paired_difference
from bayescl_lab.images.probes import probe_title
from bayescl_lab.runs.losses import BASELINE, LOSSES, TEACHER
from bayescl_lab.runs.ranking import baselines

_DATA = {
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10 (JPEG)",
    "cifar100": "CIFAR-100",
    "stl10": "STL10",
    "tiny-imagenet": "Tiny-ImageNet",
}
_SHORT = {"precision": "P", "recall": "R", "ndcg": "NDCG"}

Result = Mapping[str, Any]
"""``result.json`` of a comparison, of encoders or recommenders, or a cell of the ranking table."""


@dataclass(frozen=True)
class Table:
    """A table of text; ``**`` around a cell makes it bold, ``*`` italic.

    Attributes:
        records: for each row, its cells by the titles of their columns. Columns stand in the order
            in which they are first named; those without a text are left out.
        title: a sentence above it.
        note: a sentence below it.
        numeric: whether all columns but the first hold numbers, which are aligned to the right.

    Example:
        >>> print(Table([{"loss": "InfoNCE", "k-NN": "93.4"}]).markdown())
        | loss | k-NN |
        | --- | --: |
        | InfoNCE | 93.4 |
    """

    records: Sequence[Mapping[str, str]]
    title: str = ""
    note: str = ""
    numeric: bool = True

    @property
    def head(self) -> list[str]:
        """Titles of the columns."""
        names = dict.fromkeys(name for record in self.records for name in record)
        return [name for name in names if any(record.get(name) for record in self.records)]

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each row, empty where its record has none."""
        head = self.head
        return [[record.get(name, "") for name in head] for record in self.records]

    def markdown(self) -> str:
        """Head and rows as Markdown."""
        rule = ["---"] + ["--:" if self.numeric else "---"] * (len(self.head) - 1)
        lines = (self.head, rule, *self.rows)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def as_markdown(*parts: str | Table) -> str:
    """Paragraphs and tables, these with title and note; what is empty is left out."""
    paragraphs: list[str] = []
    for part in parts:
        if isinstance(part, str):
            paragraphs.append(part)
        elif part.records:
            paragraphs += [part.title, part.markdown(), part.note]
    return "\n\n".join(filter(None, paragraphs))


def template(name: str, **filters: Callable[..., object]) -> Template:
    """A template of this folder. Missing values are errors; HTML escapes what it shows."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
    )
    environment.filters.update(filters)
    return environment.get_template(name)


@cache
def _sentences() -> Any:
    return template(
        "sentences.jinja",
        form=format,
        counted=counted,
        data_title=data_title,
        loss_title=loss_title,
        measure_title=measure_title,
        settings=settings_text,
        difference=difference_text,
    ).module


def paragraph(name: str, *values: object) -> str:
    """A paragraph of ``sentences.jinja`` with values filled in."""
    return " ".join(getattr(_sentences(), name)(*values).split())


def paired_differences(result: Result, base: str = BASELINE) -> dict[str, dict[str, Any]]:
    """By loss and measure, how far each loss lies above another, seed by seed.

    ``sign`` is 1 or -1 if the mean is at least two standard errors above or below 0, else 0. There
    are none if ``base`` was not compared.
    """
    of_images = "summary" in result
    losses = result["summary"]["losses"] if of_images else result["losses"]
    measured = {loss: entry["probes" if of_images else "metrics"] for loss, entry in losses.items()}
    if base not in measured:
        return {}

    def difference(loss: str, measure: str) -> dict[str, Any]:
        values, base_values = (measured[name][measure]["values"] for name in (loss, base))
        paired = paired_difference(values, base_values)
        sign = (paired["mean"] > 0) - (paired["mean"] < 0)
        return {**paired, "sign": sign if exceeds_noise(paired, len(values)) else 0}

    return {
        loss: {measure: difference(loss, measure) for measure in measures}
        for loss, measures in measured.items()
        if measures and loss != base
    }


def difference_table(result: Result, measures: Sequence[str] = ()) -> Table:
    """How far every loss lies above InfoNCE; empty for one seed, and without InfoNCE."""
    in_points = "summary" in result
    seeds, records = 1, []
    for loss, differences in paired_differences(result).items():
        record = {"loss": loss_title(loss)}
        for measure in measures or differences:
            difference = differences[measure]
            seeds = len(difference["values"])
            text = difference_text(difference, in_points=in_points)
            record[measure_title(measure)] = f"**{text}**" if difference["sign"] else text
        records.append(record)
    if seeds == 1:
        return Table([])
    by_chance = 2 * stats.t.sf(2, seeds - 1)
    title = (
        f"**{'Points above' if in_points else 'Above'} InfoNCE, paired by seed.** Bold: at least "
        f"two standard errors from 0, which with {seeds} seeds chance alone does in "
        f"{100 * by_chance:.0f} of 100 cases."
    )
    return Table(records, title)


def difference_text(difference: Mapping[str, Any], *, in_points: bool) -> str:
    """A difference of accuracies, in points of percent, or of other metrics."""
    form, scale = ("+.2f", 100) if in_points else ("+.4f", 1)
    return mean_text(difference, form, scale=scale)


def mean_text(entry: Mapping[str, Any], form: str = ".1f", *, scale: float = 1.0) -> str:
    """Mean and spread over seeds; only the mean for a single seed.

    Args:
        entry: with ``mean`` and ``spread``.
        form: format of the mean; the spread's is the same without a sign.
        scale: 100 for percent.

    Example:
        >>> mean_text({"mean": 0.123, "spread": 0.04}, "+.1f", scale=100)
        '+12.3 ± 4.0'
    """
    mean = f"{scale * entry['mean']:{form}}"
    if float(mean) == 0:  # a rounded -0.0 has no sign of its own
        mean = f"{0.0:{form}}"
    spread = entry["spread"]
    return mean if spread is None else f"{mean} ± {scale * spread:{form.removeprefix('+')}}"


def settings_text(settings: Mapping[str, float | None]) -> str:
    """Hyper-parameters by name; without a value the prior is the density."""
    return ", ".join(
        f"{name} {'density' if value is None else f'{value:g}'}" for name, value in settings.items()
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}{'s' * (number != 1)}"


def number(value: float | None, form: str = ".3f") -> str:
    """A number as text; nothing for None."""
    return "" if value is None else f"{value:{form}}"


def data_title(data: str) -> str:
    """The title of a data set, given by name or path; lossy copies have titles of their own.

    Example:
        >>> data_title("data/cifar10-jpeg"), data_title("digits"), data_title("mine/scans.npz")
        ('CIFAR-10 (JPEG)', 'digits', 'scans.npz')
    """
    name = Path(data).name
    return _DATA.get(name, name)


def loss_title(name: str) -> str:
    """A loss, with a teacher or without, or a baseline.

    Example:
        >>> loss_title("info_nce_teacher")
        'InfoNCE + teacher'
    """
    row = LOSSES.get(name.removesuffix(TEACHER))
    if row is None:
        return baselines.TITLES.get(name, name)
    return f"{row.title} + teacher" if name.endswith(TEACHER) else row.title


def loss_colour(name: str) -> str:
    """The colour of a loss in figures; a reference line's if it is not in the table."""
    row = LOSSES.get(name.removesuffix(TEACHER))
    return NEUTRAL if row is None else row.colour


def measure_title(name: str) -> str:
    """A metric of recommenders, or a probe of images, as a column's heading.

    Example:
        >>> measure_title("ndcg@20"), measure_title("few_label_5"), measure_title("linear_top5")
        ('NDCG@20', '5 labels/class', 'linear, top 5')
    """
    metric, at, k = name.partition("@")
    return f"{_SHORT.get(metric, metric)}@{k}" if at else probe_title(name)

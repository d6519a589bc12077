"""Tables, scores and titles as text, for Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape
from scipy import stats

from bayescl_lab._figures import LOSS_COLORS, NEUTRAL
from bayescl_lab.items.probes import TITLES
from bayescl_lab.runs.losses import LOSSES, loss_of
from bayescl_lab.runs.ranking import baselines
from bayescl_lab.runs.result import Score, is_percent

FEW_ITEMS = 200
"""Number of items below which an accuracy has a confidence interval."""

_DATA = {
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10 (JPEG)",
    "cifar100": "CIFAR-100",
    "stl10": "STL10",
    "tiny-imagenet": "Tiny-ImageNet",
}
_SHORT = {"precision": "P", "recall": "R", "ndcg": "NDCG"}


@dataclass(frozen=True)
class ReportTable:
    """Table of text. ``**`` around a cell makes it bold, ``*`` italic.

    Attributes:
        records: Cells of each row by column title. Columns are in the order of first use. Empty
            columns are dropped.
        title: Text above the table.
        note: Text below the table.
        numeric: Whether all columns but the first have numbers, which are aligned to the right.

    Example:
        >>> print(ReportTable([{"loss": "InfoNCE", "k-NN": "93.4"}]).markdown())
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
        """Cells of each row, with empty text for missing ones."""
        head = self.head
        return [[record.get(name, "") for name in head] for record in self.records]

    def markdown(self) -> str:
        """Format the table as Markdown."""
        rule = ["---"] + ["--:" if self.numeric else "---"] * (len(self.head) - 1)
        lines = (self.head, rule, *self.rows)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def as_markdown(*parts: str | ReportTable) -> str:
    """Join paragraphs and tables, with their titles and notes, as Markdown, without empty parts."""
    paragraphs: list[str] = []
    for part in parts:
        if isinstance(part, str):
            paragraphs.append(part)
        elif part.records:
            paragraphs += [part.title, part.markdown(), part.note]
    return "\n\n".join(filter(None, paragraphs))


def template(name: str, **filters: Callable[..., object]) -> Template:
    """Load a template of this folder. Missing values are errors, and HTML values are escaped."""
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
    ).module


def paragraph(name: str, *values: object) -> str:
    """Render a paragraph of ``sentences.jinja`` with values."""
    return " ".join(getattr(_sentences(), name)(*values).split())


def score_text(score: Score, measure: str, items: int | None = None) -> str:
    """Format a score. Accuracies are in percent, with an interval if there are few items."""
    if is_percent(measure) and items is not None and items < FEW_ITEMS:
        right = stats.binomtest(round(score.mean * items), items)
        interval = right.proportion_ci(method="wilson")  # of 95 %
        return f"{score.text(scale=100)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"
    if is_percent(measure):
        return score.text(scale=100)
    return re.sub(r"(?<!\d)0\.", ".", score.text(".4f"))


def difference_text(difference: Score, measure: str) -> str:
    """Format a difference. Differences of accuracies are in percentage points."""
    if is_percent(measure):
        return difference.text("+.2f", scale=100)
    return difference.text("+.4f")


def settings_text(settings: Mapping[str, float | None]) -> str:
    """Format hyper-parameters by name, with "density" for ``None``."""
    return ", ".join(
        f"{name} {'density' if value is None else f'{value:g}'}" for name, value in settings.items()
    )


def counted(number: int, noun: str) -> str:
    """Format a number with its noun in singular or plural."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def number(value: float | None, form: str = ".3f") -> str:
    """Format a number; empty for ``None``."""
    return "" if value is None else f"{value:{form}}"


def data_title(data: str) -> str:
    """Return the title of a data set, given by name or path. Lossy copies have their own titles.

    Example:
        >>> data_title("data/cifar10-jpeg"), data_title("digits"), data_title("mine/scans.npz")
        ('CIFAR-10 (JPEG)', 'digits', 'scans.npz')
    """
    name = Path(data).name
    return _DATA.get(name, name)


def loss_title(name: str) -> str:
    """Return the title of a loss, with or without a teacher, or of a baseline.

    Example:
        >>> loss_title("info_nce+teacher")
        'InfoNCE + teacher'
    """
    row = LOSSES.get(loss_of(name))
    if row is None:
        return baselines.TITLES.get(name, name)
    return " + ".join([row.title, *name.split("+")[1:]])


def loss_color(name: str) -> str:
    """Return the color of a loss in figures, or the neutral color for others."""
    return LOSS_COLORS.get(loss_of(name), NEUTRAL)


def measure_title(name: str) -> str:
    """Return the column title of a metric of recommenders or a probe.

    Example:
        >>> measure_title("ndcg@20"), measure_title("few_label_5"), measure_title("linear_top5")
        ('NDCG@20', '5 labels/class', 'linear, top 5')
    """
    metric, at, k = name.partition("@")
    return f"{_SHORT.get(metric, metric)}@{k}" if at else TITLES[name]

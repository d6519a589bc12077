"""Values that the paper prints, beside the values of finished results.

In its table "Top-k ranking performance", the paper reports the best epoch on the test split,
separately for each metric. It uses random splits of its own, on which all methods score higher, so
its values on Gowalla and Yelp2018 cannot be compared with ours. For these data sets, ``PUBLISHED``
has values of other papers on LightGCN's split, which we use too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

import yaml

from bayescl_lab.runs.result import Score


@dataclass(frozen=True)
class Printed:
    """A printed value, its spread after "±", and a note on errors."""

    value: float
    spread: float | None = None
    note: str = ""

    def beside(self, text: str, form: str, notes: list[str]) -> str:
        """Append the value in parentheses to a text, and its note to ``notes`` with a number.

        Example:
            >>> Printed(91.1, 0.2, "from the text").beside("90.0 ± 0.5", "g", [])
            '90.0 ± 0.5 (91.1 ± 0.2 [1])'
        """
        shown = Score(self.value, self.spread).text(form).removeprefix("0")
        if self.note:
            notes.append(f"[{len(notes) + 1}] {self.note}.")
            shown += f" [{len(notes)}]"
        return f"{text} ({shown})"


_FOLDER = files(__package__)

METRICS = tuple(f"{metric}@{k}" for k in (5, 10, 20) for metric in ("precision", "recall", "ndcg"))
"""Columns of the paper's table, in its order."""

MISPRINTS = {("ml-1m", "lightgcn", "bayesian", "ndcg@10"): "probably a misprint of about 0.41"}
"""Notes on probable misprints, by data set, encoder, loss and metric."""


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Read the rows of a CSV file of this package."""
    return csv.DictReader(_FOLDER.joinpath(name).read_text(encoding="utf-8").splitlines())


RANKING: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    (row["data"], row["encoder"], row["loss"]): {metric: float(row[metric]) for metric in METRICS}
    for row in _rows("ranking_printed.csv")
}
"""Values of the ranking table by (data set, encoder, loss), then by metric."""

IMAGES: dict[tuple[str, ...], dict[str, Printed]] = {}
"""Values of the tables on images by (table, data set, loss, varied value), then by measure."""

for _row in _rows("image_printed.csv"):
    _key = tuple(_row[name] for name in ("table", "data", "loss", "varied"))
    _spread = float(_row["spread"]) if _row["spread"] else None
    _value = Printed(float(_row["value"]), _spread, _row["note"])
    IMAGES.setdefault(_key, {})[_row["measure"]] = _value

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = yaml.safe_load(
    _FOLDER.joinpath("ranking_published.yaml").read_text(encoding="utf-8")
)
"""Published values on LightGCN's split by data set and method."""

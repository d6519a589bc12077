"""Values that the paper prints, beside the values of finished results.

``PAPER`` has the table "Top-k ranking performance". The paper reports the best epoch on the test
part, separately for each metric. It uses random splits of its own, on which all methods score
higher, so its values on Gowalla and Yelp2018 cannot be compared with ours. For these data sets,
``PUBLISHED`` has values of other papers on LightGCN's split, which we use too.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
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


METRICS = tuple(f"{metric}@{k}" for k in (5, 10, 20) for metric in ("precision", "recall", "ndcg"))
"""Columns of the paper's table, in its order."""

MISPRINTS = {("ml-1m", "lightgcn", "bayesian", "ndcg@10"): "probably a misprint of about 0.41"}
"""Notes on probable misprints, by data set, encoder, loss and metric."""

_PRINTED = files(__package__).joinpath("ranking_printed.csv").read_text(encoding="utf-8")
PAPER: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    (row["data"], row["encoder"], row["loss"]): {metric: float(row[metric]) for metric in METRICS}
    for row in csv.DictReader(_PRINTED.splitlines())
}
"""Values of the paper by (data set, encoder, loss), then by metric."""

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = yaml.safe_load(
    files(__package__).joinpath("ranking_published.yaml").read_text(encoding="utf-8")
)
"""Published values on LightGCN's split by data set and method."""

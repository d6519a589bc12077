"""Values of the paper's table "Top-k ranking performance", and other published values.

The paper reports the best epoch on the test part, separately for each metric. It also uses its own
random splits, on which all methods score higher, so its values on Gowalla and Yelp2018 cannot be
compared with ours. For these data sets, this module has published values on LightGCN's split, which
we use too.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib.resources import files

import yaml

METRICS = tuple(f"{metric}@{k}" for k in (5, 10, 20) for metric in ("precision", "recall", "ndcg"))
"""Columns of the paper's table, in its order."""

MISPRINTS = {("ml-1m", "lightgcn", "bayesian", "ndcg@10")}
"""Probable misprints. This value is printed as 0.1893; the values next to it suggest 0.41."""

_PRINTED = files(__package__).joinpath("printed.csv").read_text(encoding="utf-8")
PAPER: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    (row["data"], row["encoder"], row["loss"]): {metric: float(row[metric]) for metric in METRICS}
    for row in csv.DictReader(_PRINTED.splitlines())
}
"""Values of the paper by (data set, encoder, loss), then by metric."""

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = yaml.safe_load(
    files(__package__).joinpath("published.yaml").read_text(encoding="utf-8")
)
"""Published values on LightGCN's split by data set and method."""

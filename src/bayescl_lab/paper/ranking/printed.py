"""The paper's table "Top-k ranking performance", and what others have published.

The paper takes the best epoch on the test part, separately for each metric, so its figures were
chosen on test. It also uses its own random splits, on which everything scores higher: its figures
on Gowalla and Yelp2018 cannot be compared with ours. For these data sets there are the figures of
authors who used LightGCN's split, the same files as we do.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib.resources import files

import yaml

METRICS = tuple(f"{metric}@{k}" for k in (5, 10, 20) for metric in ("precision", "recall", "ndcg"))
"""The columns of the paper's table, in its order."""

MISPRINTS = {("ml-1m", "lightgcn", "bayesian", "ndcg@10")}
"""Figures that must be misprints: this one is printed as 0.1893, while its neighbours suggest
0.41."""

_PRINTED = files(__package__).joinpath("printed.csv").read_text(encoding="utf-8")
PAPER: Mapping[tuple[str, str, str], Mapping[str, float]] = {
    (row["data"], row["encoder"], row["loss"]): {metric: float(row[metric]) for metric in METRICS}
    for row in csv.DictReader(_PRINTED.splitlines())
}
"""The paper's figures by (data set, encoder, loss), then by metric."""

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = yaml.safe_load(
    files(__package__).joinpath("published.yaml").read_text(encoding="utf-8")
)
"""Figures on LightGCN's split by data set and method."""

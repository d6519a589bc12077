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

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "gowalla": {
        "LightGCN, BPR": {"recall@20": 0.1830, "ndcg@20": 0.1554},
        "LightGCN, softmax": {"recall@20": 0.1874, "ndcg@20": 0.1571},
        "LightGCN, BSL": {"recall@20": 0.1892, "ndcg@20": 0.1590},
    },
    "yelp2018": {
        "LightGCN, BPR": {"recall@20": 0.0649, "ndcg@20": 0.0530},
        "MF, sampled softmax": {"recall@20": 0.0721, "ndcg@20": 0.0592},
        "LightGCN, softmax": {"recall@20": 0.0736, "ndcg@20": 0.0612},
        "LightGCN, BSL": {"recall@20": 0.0744, "ndcg@20": 0.0617},
        "SimGCL": {"recall@20": 0.0721, "ndcg@20": 0.0601},
    },
}
"""By data set and method, as their authors chose them; full ranking, dimension 64.

The files of these data sets come with LightGCN's split, on which the paper has nothing."""

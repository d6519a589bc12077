"""Figures that others publish on LightGCN's split of Gowalla and Yelp2018.

The paper's own figures on these data sets are from another, random split, on which everything
scores higher. The figures here are from authors who used the same files as we do.
"""

from __future__ import annotations

from collections.abc import Mapping

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
"""By data set and method, as their authors chose them; full ranking, dimension 64."""


def has_lightgcn_split(data: str) -> bool:
    """Whether the files of a data set come with LightGCN's split, on which the paper has nothing.

    Example:
        >>> has_lightgcn_split("gowalla"), has_lightgcn_split("ml-100k, author split")
        (True, False)
    """
    return data in PUBLISHED

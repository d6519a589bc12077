"""What each of two processes computes for the test of ranking losses on several devices."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ranks.launch import Findings
from torch.nn.parallel import DistributedDataParallel

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")

ANCHORS = ["cat", "dog red", "bird", "fish blue", "alpha", "beta"]
# The first positive appears on both processes, and the last is an anchor of the first one.
POSITIVES = ["gamma", "delta eats", "green", "gamma", "flies", "dog red"]
NEGATIVES = ["runs", "sleeps", "red", "blue green", "eats", "cat cat"]
PARTS = {"unequal": [slice(0, 2), slice(2, 6)], "equal": [slice(0, 3), slice(3, 6)]}
SETTINGS: dict[str, dict[str, Any]] = {
    "one direction": {},
    "both directions": {"both_directions": True},
    "both directions, kept": {"both_directions": True, "duplicates": "keep"},
    "a margin": {"margin": 0.02},
}


def columns(own: slice) -> list[list[str]]:
    return [texts[own] for texts in (ANCHORS, POSITIVES, NEGATIVES)]


def whole(name: str) -> tuple[float, torch.Tensor]:
    """The value and gradient of one process with the whole batch."""
    from bayescl.integrations.sentence_transformers import BayesianRankingLoss
    from integrations import tiny_models

    model = tiny_models.static()
    loss = BayesianRankingLoss(model, **SETTINGS[name])
    value = loss(tiny_models.features(model, columns(slice(0, 6))), None)
    value.backward()
    return value.item(), next(model.parameters()).grad


def on_a_rank(rank: int, world_size: int) -> Findings:
    from sentence_transformers.sentence_transformer import losses as theirs

    from bayescl.integrations import sentence_transformers as ours
    from integrations import tiny_models

    del world_size

    def step(make: Any, parts: str, **options: Any) -> list[Any]:
        model = tiny_models.static()
        loss = make(model, gather_across_devices=True, **options)
        features = tiny_models.features(model, columns(PARTS[parts][rank]))
        loss.model = DistributedDataParallel(model)
        value = loss(features, None)
        value.backward()
        return [value.item(), next(model.parameters()).grad.tolist()]

    found: Findings = {
        name: step(ours.BayesianRankingLoss, "unequal", **options)
        for name, options in SETTINGS.items()
    }
    found["ours"] = step(ours.InfoNCERankingLoss, "equal", duplicates="keep")
    warnings.simplefilter("default")  # theirs calls a function that torch calls deprecated
    found["theirs"] = step(theirs.MultipleNegativesRankingLoss, "equal")
    return found

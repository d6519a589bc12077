"""Results of each of two processes with an adapter and with the loss that it replaces."""

import warnings
from functools import partial
from importlib.util import find_spec
from typing import Any

import cases
import pytest
import torch
from ranks.launch import Findings

import bayescl

DIM, BATCH = 5, 4
GROUPS = torch.tensor([0, 1, 2, 0, 3, 1])
ANCHORS = ["cat", "dog red", "bird", "fish blue", "alpha", "beta"]
# The first positive appears on both processes, and the last is an anchor of the first one.
POSITIVES = ["gamma", "delta eats", "green", "gamma", "flies", "dog red"]
NEGATIVES = ["runs", "sleeps", "red", "blue green", "eats", "cat cat"]
RANKING: list[dict[str, Any]] = [
    {},
    {"both_directions": True},
    {"both_directions": True, "duplicates": "keep"},
    {"margin": bayescl.Margin(absolute=0.02, extra=True)},
    {"teacher": "documents", "both_directions": True},
    {"teacher": "scores"},
]
SCORES = torch.linspace(-1, 1, 12).view(6, 2).cos()


rows = partial(cases.rows, dim=DIM)


def stepped(loss: Any, inputs: list[torch.Tensor], *more: Any, **options: Any) -> list[Any]:
    """The loss of inputs, and the gradient of each."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in inputs]
    value = loss(*leaves, *more, **options)
    value.backward()
    return [value.item(), *(0.0 if leaf.grad is None else leaf.grad.tolist() for leaf in leaves)]


def assert_same(mine: list, wanted: list, within: float = 1e-6) -> None:
    """Values and gradients agree."""
    assert mine[0] == pytest.approx(wanted[0], rel=within, abs=within)
    gradients = ([torch.tensor(side).double() for side in step[1:]] for step in (mine, wanted))
    torch.testing.assert_close(*gradients, rtol=0, atol=10 * within)


def lightly(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from lightly.loss import NTXentLoss as Theirs

    from bayescl.integrations.lightly import NTXentLoss as Ours

    del world_size
    own, found = slice(rank * BATCH, (rank + 1) * BATCH), {}
    for name, made in (("ours", Ours), ("theirs", Theirs)):
        loss = made(0.5, 0, True)
        for step in range(3):
            views = [rows(2 * BATCH, 2 * step + view)[own] for view in (0, 1)]
            found[f"{name}, {step}"] = stepped(loss, views)
    return found


def metric_learning(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from pytorch_metric_learning.losses import NTXentLoss as Theirs
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    from bayescl.integrations.pytorch_metric_learning import NTXentLoss as Ours

    del world_size
    labels, found = torch.tensor([0, 0, 1, 1, 2, 3]), {}
    for name, made in (("ours", Ours), ("theirs", Theirs)):
        for efficient in (False, True):
            loss = DistributedLossWrapper(made(temperature=0.2), efficient)
            found[f"{name}, {efficient}"] = stepped(loss, [rows(6, rank)], labels)
    return found


def pairs_of_clip(
    loss: Any,
    own: slice = slice(0, 6),
    **call: Any,
) -> list[Any]:
    """A step of images and texts, with the gradient of the scale."""
    inputs = [torch.nn.functional.normalize(rows(6, seed), dim=1)[own] for seed in (0, 1)]
    return stepped(loss, [*inputs, torch.tensor(12.0)], **call)


def open_clip(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from open_clip import ClipLoss as Theirs

    from bayescl.integrations.open_clip import ClipLoss

    pair = {"rank": rank, "world_size": world_size}
    gathering = {"local_loss": True, "gather_with_grad": True, **pair}
    equal, unequal = slice(3 * rank, 3 * rank + 3), [slice(0, 2), slice(2, 6)][rank]
    return {
        "ours": pairs_of_clip(ClipLoss(**gathering), equal),
        "theirs": pairs_of_clip(Theirs(**gathering), equal),
        "unequal": pairs_of_clip(
            ClipLoss(**pair, loss=bayescl.BayesianContrastiveLoss), unequal, groups=GROUPS[unequal]
        ),
    }


def texts(rank: int, world_size: int) -> Findings:
    from sentence_transformers.sentence_transformer import losses as theirs

    del world_size
    equal, unequal = slice(3 * rank, 3 * rank + 3), [slice(0, 2), slice(2, 6)][rank]
    warnings.simplefilter("default")  # theirs calls a function that torch calls deprecated
    return {
        "ours": step_of_texts(info_nce_of_texts, equal, wrapped=True, duplicates="keep"),
        "theirs": step_of_texts(theirs.MultipleNegativesRankingLoss, equal, wrapped=True),
        **{
            str(options): step_of_texts(bayesian_of_texts, unequal, wrapped=True, **options)
            for options in RANKING
        },
    }


def info_nce_of_texts(
    model: Any, *, gather_across_devices: bool, loss: Any = bayescl.InfoNCELoss, **options: Any
) -> Any:
    from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss

    inner = loss(temperature=0.05, gather=gather_across_devices)
    return ContrastiveRankingLoss(model, inner, **options)


bayesian_of_texts = partial(info_nce_of_texts, loss=bayescl.BayesianContrastiveLoss)


def step_of_texts(made: Any, own: slice, *, wrapped: bool = False, **options: Any) -> list[Any]:
    """A step on some rows, alone or inside the wrapper for several devices."""
    from torch.nn.parallel import DistributedDataParallel

    from integrations import tiny_models

    model = tiny_models.static()
    loss = made(model, gather_across_devices=wrapped, **options)
    columns = [column[own] for column in (ANCHORS, POSITIVES, NEGATIVES)]
    features = tiny_models.features(model, columns)
    if wrapped:
        loss.model = DistributedDataParallel(model)
    value = loss(features, SCORES[own] if options.get("teacher") == "scores" else None)
    value.backward()
    return [value.item(), next(model.parameters()).grad.tolist()]


def every_library(rank: int, world_size: int) -> Findings:
    """What each of the libraries that are installed computes."""
    works = {
        "lightly": lightly,
        "pytorch_metric_learning": metric_learning,
        "open_clip": open_clip,
        "sentence_transformers": texts,
    }
    return {name: work(rank, world_size) for name, work in works.items() if find_spec(name)}

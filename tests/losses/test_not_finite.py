"""Masked rows that are not finite behave as if absent; extreme temperatures keep gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference.objectives import WEIGHTINGS
from torch import Tensor

import bayescl
from bayescl import Margin, Rows
from bayescl.functional import info_nce_loss

GENERATOR = torch.Generator().manual_seed(5)
LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    **{name: row.made for name, row in WEIGHTINGS.items()},
    "oracle": bayescl.OracleContrastiveLoss,
    "supervised": bayescl.SupervisedContrastiveLoss,
    "own function": lambda **shared: bayescl.ContrastiveLoss(info_nce_loss, **shared),
}
BATCH, BAD = 6, [1, 4]
GOOD = [0, 2, 3, 5]
Call = Callable[[bayescl.ContrastiveLoss, dict[str, Tensor], list[int]], Tensor]


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, 4, generator=GENERATOR, dtype=torch.float64)


GIVEN = {
    "anchors": rows(BATCH),
    "positives": rows(BATCH),
    "pairs": rows(2 * BATCH),
    "shared": rows(BATCH),
    "own": rows(BATCH, BATCH),
    "teacher": rows(BATCH),
    "log_q": rows(BATCH)[:, 0],
}
LABELS = torch.tensor([0, 1, 0, -1, 1, 2])
KNOWN = {"labels": LABELS, "teacher": GIVEN["teacher"], "groups": torch.arange(BATCH)}
SEVERAL = {"anchor_of": torch.arange(BATCH).repeat(2)}


def column_mask(width: int, kept: list[int], start: int = 0) -> Tensor:
    """A mask that leaves out the columns that are not kept, from ``start`` on."""
    mask = torch.ones(BATCH, width, dtype=torch.bool)
    mask[:, start:] = False
    mask[:, [start + place for place in kept]] = True
    return mask


def extra(part: Tensor, kept: list[int]) -> Rows:
    """Some rows with their metadata."""
    part = part[..., kept, :]
    leading = part.shape[:-1]
    groups = torch.arange(100, 100 + BATCH)[kept].expand(leading)
    teacher = GIVEN["teacher"][kept].expand(*leading, 4)
    return Rows(part, groups=groups, labels=LABELS[kept].expand(leading), teacher=teacher)


def masks(kept: list[int], width: int, start: int = 0) -> Tensor | None:
    return column_mask(width, list(range(len(kept))) if len(kept) < BATCH else GOOD, start)


# Each call with the rows that it keeps: all of them, of which a mask leaves some out, or the good.
CALLS: dict[str, tuple[str, Call]] = {
    "shared extra": (
        "shared",
        lambda loss, x, kept: loss.in_batch(
            x["anchors"],
            x["positives"],
            extra=extra(x["shared"], kept),
            valid=masks(kept, BATCH + len(kept), BATCH),
            **KNOWN,
        ),
    ),
    "own extra, several positives": (
        "own",
        lambda loss, x, kept: loss.in_batch(
            x["anchors"],
            x["pairs"],
            extra=extra(x["own"], kept),
            valid=masks(kept, 2 * BATCH + len(kept), 2 * BATCH),
            **SEVERAL,
            **{name: torch.cat([part, part]) for name, part in KNOWN.items()},
            both_directions=True,
        ),
    ),
    "shared candidates, log_q": (
        "shared",
        lambda loss, x, kept: loss.sampled(
            x["anchors"],
            Rows(x["positives"], log_q=GIVEN["log_q"]),
            Rows(**vars(extra(x["shared"], kept)) | {"log_q": GIVEN["log_q"][kept]}),
            valid=masks(kept, len(kept)),
            **KNOWN,
        ),
    ),
    "own candidates, margin": (
        "own",
        lambda loss, x, kept: loss.sampled(
            x["anchors"],
            x["positives"],
            extra(x["own"], kept),
            valid=masks(kept, len(kept)),
            margin=Margin(absolute=0.3),
            **KNOWN,
        ),
    ),
}
bad_values = pytest.mark.parametrize("value", [torch.nan, -torch.inf])
engines = pytest.mark.parametrize(
    "settings",
    [{"engine": "reference"}, {"engine": "blocked"}, {"engine": "blocked", "chunk_size": 4}],
)


def step(call: Call, loss: Any, given: dict[str, Tensor], kept: list[int]) -> list[Tensor]:
    """The value and the gradients of the rows and of the temperature."""
    leaves = {name: part.clone().requires_grad_() for name, part in given.items()}
    value = call(loss, leaves, kept)
    wanted = [*leaves.values(), *loss.parameters()]
    gradients = torch.autograd.grad(value.sum(), wanted, materialize_grads=True)
    return [value.detach(), *gradients]


@bad_values
@engines
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("case", list(CALLS))
@pytest.mark.parametrize("name", list(LOSSES))
def test_a_masked_candidate_that_is_not_finite_is_absent(
    name: str, case: str, normalize: bool, settings: dict[str, Any], value: float
) -> None:
    side, call = CALLS[case]
    temperature = bayescl.LearnableTemperature(0.5).to(torch.float64)
    loss = LOSSES[name](temperature=temperature, normalize=normalize, **settings)
    spoilt = {**GIVEN, side: GIVEN[side].clone()}
    spoilt[side][..., BAD, 1] = value
    expected, found = step(call, loss, GIVEN, GOOD), step(call, loss, spoilt, list(range(BATCH)))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    of_side = found[1 + list(GIVEN).index(side)]
    assert (of_side[..., BAD, :] == 0).all()


@bad_values
@engines
@pytest.mark.parametrize("layout", ["two_views", "in_batch"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", list(LOSSES))
def test_a_masked_item_that_is_not_finite_is_absent(
    name: str, normalize: bool, layout: str, settings: dict[str, Any], value: float
) -> None:
    temperature = bayescl.LearnableTemperature(0.5).to(torch.float64)
    loss = LOSSES[name](temperature=temperature, normalize=normalize, reduction="none", **settings)

    def call(loss: Any, x: dict[str, Tensor], kept: list[int]) -> Tensor:
        known = {name: part[kept] for name, part in KNOWN.items()}
        some = torch.tensor([place in GOOD for place in kept])
        valid = some[:, None] & some
        one, other = x["anchors"][kept], x["positives"][kept]
        if layout == "two_views":
            return loss(one, other, valid=valid.repeat(2, 2), **known)
        return loss.in_batch(one, other, valid=valid, both_directions=True, **known)

    spoilt = {**GIVEN, "anchors": GIVEN["anchors"].clone(), "positives": GIVEN["positives"].clone()}
    spoilt["anchors"][1], spoilt["positives"][4, 0] = value, value
    expected, found = step(call, loss, GIVEN, GOOD), step(call, loss, spoilt, list(range(BATCH)))
    places = torch.tensor(GOOD)
    torch.testing.assert_close(
        found[0][torch.cat([places, places + BATCH])], expected[0], rtol=1e-9, atol=1e-12
    )
    assert (found[0][BAD] == 0).all()
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@engines
@pytest.mark.parametrize("name", list(LOSSES))
def test_a_row_that_is_not_finite_and_counts_makes_the_loss_nan(
    name: str, settings: dict[str, Any]
) -> None:
    loss = LOSSES[name](reduction="none", **settings)
    shared = GIVEN["shared"].clone()
    shared[1, 0] = torch.nan
    valid = torch.ones(BATCH, BATCH, dtype=torch.bool)
    valid[:3, 1] = False
    each = loss.sampled(
        GIVEN["anchors"],
        GIVEN["positives"],
        Rows(shared, groups=torch.arange(100, 100 + BATCH)),
        valid=valid,
        **KNOWN,
    )
    assert each[:3].isfinite().all()
    assert each[3:].isnan().all()


@pytest.mark.parametrize("scale", [20.0, 50.0, 80.0])
@pytest.mark.parametrize("layout", ["two_views", "in_batch", "sampled"])
@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize("name", list(LOSSES))
def test_gradients_are_finite_at_temperatures_near_zero(
    name: str, chunk_size: int | None, layout: str, scale: float
) -> None:
    loss = LOSSES[name](chunk_size=chunk_size)
    s = torch.tensor(scale, requires_grad=True)
    leaves = [GIVEN[side].float().requires_grad_() for side in ("anchors", "positives", "shared")]
    call = loss if layout == "two_views" else getattr(loss, layout)
    more = [Rows(leaves[2], groups=torch.arange(100, 106))] if layout == "sampled" else []
    value = call(*leaves[:2], *more, temperature=1 / s.exp(), **KNOWN)
    gradients = torch.autograd.grad(value, [s, *leaves], materialize_grads=True)
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_temperature_that_float32_cannot_hold_is_refused_by_its_scale(name: str) -> None:
    loss, scale = LOSSES[name](), torch.tensor(89.0)
    with pytest.raises(ValueError, match=r"got 0; if it is 1 / scale, the scale is too large"):
        loss(GIVEN["anchors"], GIVEN["positives"], temperature=1 / scale.exp(), **KNOWN)

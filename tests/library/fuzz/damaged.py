"""A random call with one bad argument, and the refusal that it must meet."""

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from fuzz.calls import Dice, draw_call
from torch import Tensor

import bayescl
from bayescl import Rows

NUMBERS = (
    None, "much", float("nan"), float("inf"), -1.0, 0.0, 0.3, 1.0, 1.5, 1e-42, [0.5], 1j, True,
)  # fmt: skip
COUNTS = (None, 0, -3, 2.5, "many", True, 2**70, float("nan"))
MAKERS = (
    bayescl.InfoNCELoss, bayescl.DebiasedContrastiveLoss, bayescl.HardContrastiveLoss,
    bayescl.BayesianContrastiveLoss, bayescl.SupervisedContrastiveLoss,
    bayescl.LearnableTemperature, bayescl.Margin,
)  # fmt: skip
NEEDED = {
    bayescl.LearnableTemperature: {"initial": 0.1},
    bayescl.Margin: {},
}
SHARED = {"reduction": ("median", None, 3, []), "engine": ("fast", None, 3, [])}


def settings_of(maker: type) -> dict[str, tuple[Any, ...]]:
    """Bad values for the numbers and counts among a class's arguments, and its parents'."""
    kinds = {"float": NUMBERS, "int": COUNTS}
    return {
        name: kinds[kind]
        for parent in maker.__mro__
        if "__init__" in vars(parent) and parent.__module__.startswith("bayescl")
        for name, argument in signature(parent).parameters.items()
        if (kind := str(argument.annotation).partition(" ")[0]) in kinds
    }


def violations(seed: int) -> list[str]:
    """What is wrong with the refusal of the damaged call of a seed; nothing if all is well."""
    dice = Dice(seed)
    told, attempt, names = _bad_setting(dice) if dice.chance(0.3) else _bad_argument(dice)
    try:
        value = attempt()
    except (ValueError, TypeError) as problem:
        if not any(re.search(rf"\b{name}\b", str(problem)) for name in names):
            return [f"{told}: {type(problem).__name__} names none of {names}: {problem}"]
        return []
    except Exception as problem:
        return [f"{told}: {type(problem).__name__}: {problem}"]
    if isinstance(value, Tensor) and not bool(value.isfinite().all()):
        return [f"{told}: not refused, and the value is not finite"]
    return []


def _bad_setting(dice: Dice) -> tuple[str, Callable[[], object], set[str]]:
    maker = dice.one(*MAKERS)
    settings: dict[str, Any] = dict(NEEDED.get(maker, {}))
    choices = settings_of(maker) | ({} if maker in NEEDED else SHARED)
    name = dice.one(*choices)
    settings[name] = dice.one(*choices[name])
    # Bounds are refused together, and so are alpha and beta in their corner.
    together = ({"minimum", "maximum", "initial"}, {"alpha", "beta"}, {"absolute", "relative"})
    names = {name}.union(*(group for group in together if name in group))
    return f"{maker.__name__}(**{settings})", lambda: maker(**settings), names


def _bad_argument(dice: Dice) -> tuple[str, Callable[[], object], set[str]]:
    _, drawn, call = draw_call(dice.below(10**6))
    for tensor in call.tensors.values():
        tensor.nan_to_num_(0.5, 2.0, -2.0).clamp_(-4, 4)
    places = [(name, "") for name in (*call.given, "temperature") if name != "both_directions"]
    places += [
        (side, field)
        for side, rows in call.given.items()
        if isinstance(rows, Rows)
        for field in rows.metadata
    ]
    name, field = dice.one(*places)
    good = call.given.get(name)
    bad: Any
    if name == "temperature":
        bad = dice.one(
            0.0, -1.0, "warm", float("nan"), torch.ones(2), torch.tensor(1), [0.5],
            torch.tensor(-1.0), torch.tensor(0.0), torch.tensor(1j), 1e-42,
        )  # fmt: skip
        call.own_temperature = "loss"
    elif name == "margin":
        bad = dice.one(0.95, "wide", [0.1], object())
    elif isinstance(good, Rows):
        bad = _damage(dice, getattr(good, field or "embeddings"))
    else:
        bad = _damage(dice, good)
    told = f"{drawn.name}.{call.layout}({name}{'.' * bool(field)}{field}={_shown(bad)})"
    damaged = replace(good, **{field: bad}) if field and isinstance(good, Rows) else bad

    def attempt() -> object:
        loss = drawn.make(temperature=0.5, normalize=call.normalize, **call.settings)
        made = loss if call.layout == "two_views" else getattr(loss, call.layout)
        return made(**call.given | {name: damaged})

    # Sizes of several arguments must fit, so the other one may be what is named.
    return told, attempt, {name, *call.given}


def _shown(bad: Any) -> str:
    if isinstance(bad, Tensor):
        return f"{bad.layout} {bad.dtype} {list(bad.shape)}"
    return repr(bad)[:60]


def _damage(dice: Dice, good: Tensor) -> Any:
    """Something that is not what it should be, or is and has another form."""
    good = good.to_dense()  # a target may be sparse
    kinds: list[Callable[[], Any]] = [
        lambda: good[0],
        lambda: good[:0],
        lambda: good[None],
        lambda: good[..., None],
        lambda: good[:-1],
        lambda: torch.cat([good, good]),
        lambda: good.long() if good.dtype != torch.int64 else good.double(),
        lambda: good.to(torch.complex64),
        lambda: good.bool() if good.dtype != torch.bool else good.int(),
        lambda: good.tolist(),
        lambda: good.numpy() if good.dtype != torch.bfloat16 else good.float().numpy(),
        lambda: dice.one(None, 3, 0.5, "rows", object()),
        lambda: good.to_sparse(),
        lambda: good.to("meta"),
        lambda: torch.cat([good, good], dim=-1),
    ]
    if good.is_floating_point():
        kinds.append(lambda: good.to(torch.float8_e4m3fn))
        kinds.append(lambda: good.narrow_copy(good.ndim - 1, 0, 0))
    if good.dtype == torch.bool:
        kinds.append(lambda: torch.zeros_like(good))
    return dice.one(*kinds)()

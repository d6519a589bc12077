"""What must hold for any call, whatever its values."""

import math
import re
from collections.abc import Iterator

import torch
from fuzz.calls import Answer, Call, Drawn, draw_call
from torch import Tensor

AGREEMENT = 1e-4
"""What values may be off by, of themselves or of 1, beside the rounding of logits."""


def violations(seed: int) -> list[str]:
    """What is wrong with the answers to the call of a seed; nothing if all is well."""
    dice, drawn, call = draw_call(seed)
    reduction, chunk = dice.one("mean", "sum", "none"), 1 + dice.below(6)
    settings = {"reduction": reduction, "check_finite": False}
    told = f"{drawn.name}, {call.layout}, {call.dtype}, temperature {call.temperature:g}"
    try:
        engine = dice.one("reference", "blocked")
        each = call.run(drawn, reduction="none", engine=engine, chunk_size=chunk)
        whole = call.run(drawn, engine="reference", **settings)
        blocked = call.run(drawn, engine="blocked", chunk_size=chunk, **settings)
        precise = call.run(drawn, engine="reference", precise=True, **settings)
        both = call.run(drawn, engine="blocked", chunk_size=chunk, precise=True, **settings)
    except Exception as problem:  # any call that is drawn here must be answered
        return [f"{told}: {type(problem).__name__}: {problem}"]
    found = [
        *_values(drawn, call, each),
        *_finite_gradients(call, whole, "reference"),
        *_finite_gradients(call, blocked, "blocked"),
    ]
    if not _at_a_jump(drawn, call):
        found += _same("reduced", _reduced(call, each.value, reduction), whole.value, call, drawn)
        found += _same("blocked", whole.value, blocked.value, call, drawn)
        found += _same_gradients(drawn, call, precise, both)
    if seed % 3 == 0:
        found += _check(drawn, call, each, settings)
    return [f"{told}: {problem}" for problem in found]


def _reduced(call: Call, losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    weight = sum(float(pairs.weight.sum()) for pairs in call.logits())
    return losses.sum() / (weight if reduction == "mean" else 1.0)


def _slack(call: Call, drawn: Drawn, value: float, candidates: int) -> float:
    """What a value may be off by: a share of itself, and the rounding of logits and targets."""
    rounding = 8 * torch.finfo(call.dtype).eps * call.bound
    slope = drawn.slope + drawn.crowd * candidates + 2 * call.has_target
    moved = 2 * call.bound * call.target_error()
    return AGREEMENT * (1 + abs(value)) + rounding * slope + moved


def _values(drawn: Drawn, call: Call, answer: Answer) -> Iterator[str]:
    """Each anchor's loss against the slow way; NaN exactly where a logit that counts is bad."""
    losses = iter(answer.value.tolist())
    at_the_margin = _at_the_margin(call)
    largest = torch.finfo(call.dtype).max
    for logits in call.logits():
        for row in range(len(logits.positive)):
            value, counted = next(losses), logits.counted[row]
            some, positive = logits.unlabeled[row][counted], logits.positive[row]
            seen = torch.cat([some, positive[None]])
            if not seen.isfinite().all() or seen.abs().max() > 1.01 * largest:
                absent = value == 0 and not len(some) and _is_masked(call)
                if math.isfinite(value) and not absent:
                    yield f"anchor {row}: {value:g} from logits that are not finite"
                continue
            if call.bound > largest / 1e3:
                continue  # sums and products on the way may overflow
            if not math.isfinite(value):
                yield f"anchor {row}: {value} from finite logits up to {seen.abs().max():g}"
                continue
            if at_the_margin:
                continue
            weight = float(logits.weight[row])
            drawn_to = float((logits.target[row][counted] * (positive - some)).sum())
            expected = [
                weight * (float(drawn.row(positive, variant, call.temperature)) + drawn_to)
                for variant in (_variants(call, some) if drawn.ranks else [some])
            ]
            slack = _slack(call, drawn, expected[0], len(some))
            if not min(expected) - slack <= value <= max(expected) + slack:
                yield f"anchor {row}: {value:.7g}, not {expected[0]:.7g}"
            if value < 0 and not call.has_target:
                yield f"anchor {row}: {value:g} is negative"


def _variants(call: Call, logits: Tensor) -> list[Tensor]:
    """Logits as they are, and with what rounding may tie tied, or with nothing tied."""
    ordered, places = logits.sort()
    close = ordered.diff() <= _rounding(call)
    if not bool(close.any()):
        return [logits]
    run = torch.cat([torch.zeros(1, dtype=torch.int64), (~close).long().cumsum(0)])
    first = torch.searchsorted(run, run)
    tied, apart = torch.empty_like(logits), torch.empty_like(logits)
    tied[places] = ordered[first]
    # Apart by less than it takes to change a sum.
    step = 4 * torch.finfo(torch.float64).eps * max(1.0, float(logits.abs().max()))
    apart[places] = ordered[first] + step * torch.arange(len(logits))
    return [logits, tied, apart]


def _rounding(call: Call) -> float:
    return 16 * torch.finfo(call.dtype).eps * max(call.bound, 1e-30)


def _any_nearly_tied(call: Call) -> bool:
    """Whether rounding may order or tie logits of a row otherwise."""
    gaps = [logits.unlabeled.sort().values.diff() for logits in call.logits()]
    return any(bool((gap <= _rounding(call)).any()) for gap in gaps)


def _at_a_jump(drawn: Drawn, call: Call) -> bool:
    """Whether the loss jumps where rounding decides, so that no two ways need agree."""
    return _at_the_margin(call) or (drawn.ranks is not None and _any_nearly_tied(call))


def _at_the_margin(call: Call) -> bool:
    """Whether rounding decides which candidates score like the positive."""
    margin = call.given.get("margin")
    if margin is None:
        return False
    edge = min(pairs.edge for pairs in call.logits())
    return edge <= 1e-5 * max(float(margin.by_teacher), call.bound * call.temperature)


def _same(what: str, one: Tensor, other: Tensor, call: Call, drawn: Drawn) -> Iterator[str]:
    """Two ways to the same values."""
    candidates = max(logits.unlabeled.shape[1] for logits in call.logits())
    scale = one.numel() if one.ndim else len(call.logits()) * len(call.logits()[0].positive)
    for mine, theirs in zip(one.flatten().tolist(), other.flatten().tolist(), strict=True):
        if math.isnan(mine) and math.isnan(theirs):
            continue
        slack = _slack(call, drawn, mine if math.isfinite(mine) else 0.0, candidates) * scale
        overflow = call.bound > torch.finfo(call.dtype).max / 1e3
        if not abs(mine - theirs) <= slack and mine != theirs and not overflow:
            yield f"{what}: {mine:.7g} and {theirs:.7g}"


def _is_masked(call: Call) -> bool:
    """Whether rows that are not finite may be masked."""
    return call.layout == "from_logits" or bool({"valid", "margin"} & call.given.keys())


def _is_finite(call: Call, value: Tensor) -> bool:
    """Whether gradients must be finite: values are, and so is what is not masked."""
    inputs = () if _is_masked(call) else call.tensors.values()
    return all(bool(one.isfinite().all()) for one in (value, *inputs))


def _finite_gradients(call: Call, answer: Answer, engine: str) -> Iterator[str]:
    """They are finite where values are."""
    if _is_finite(call, answer.value):
        for name, gradient in answer.gradients.items():
            if not _may_overflow(call, name, gradient) and not bool(gradient.isfinite().all()):
                yield f"{engine} gradient of {name} is not finite"


def _same_gradients(drawn: Drawn, call: Call, precise: Answer, both: Answer) -> Iterator[str]:
    """Those of both engines agree."""
    if not _is_finite(call, precise.value):
        return
    if 1e-16 * call.bound > 1e-8 or _at_a_kink(drawn, call):
        return
    for name, mine in precise.gradients.items():
        theirs = both.gradients[name]
        scale = float(mine.abs().max())
        if not math.isfinite(scale) or _may_overflow(call, name, mine):
            continue
        off = float((mine - theirs).abs().max())
        rounding = 1e-12 * max(call.bound, _growth(call, name))
        candidates = call.logits()[0].unlabeled.shape[1]
        rounding *= drawn.slope + drawn.crowd * candidates + 2 * call.has_target
        rounding += call.target_error(precise=True) * max(call.bound, _growth(call, name))
        if not off <= AGREEMENT * scale + rounding:
            yield f"gradient of {name}: {off:g} apart of {scale:g}"


def _at_a_kink(drawn: Drawn, call: Call) -> bool:
    """Whether an estimate meets its floor, where a loss has two slopes and rounding picks one."""
    if drawn.name not in ("debiased", "hard"):
        return False
    rows = [
        (positive, unlabeled[counted])
        for logits in call.logits()
        for positive, unlabeled, counted in zip(*logits[:3], strict=True)
    ]
    step = 1e-9 * max(call.bound, 1.0)
    for positive, unlabeled in rows:
        below, here, above = (
            float(drawn.row(positive, unlabeled + by, call.temperature))
            for by in (-step, 0.0, step)
        )
        if abs(above - here - (here - below)) > 1e-3 * step:
            return True
    return False


def _growth(call: Call, name: str) -> float:
    """About the largest gradient that a tensor can have."""
    if call.layout == "from_logits" or name == "temperature":
        return max(call.bound, 1.0) / min(call.temperature, 1.0)
    growth = max(call.bound, 1.0) / min(call.temperature, 1.0)
    if call.normalize:
        lengths = call.tensors[name].double().abs().amax(dim=-1)
        lengths = lengths[lengths.isfinite() & (lengths > 0)]
        growth /= min(1.0, float(lengths.min()) if len(lengths) else 1.0)
    return growth


def _may_overflow(call: Call, name: str, gradient: Tensor) -> bool:
    """Whether the true gradient may be larger than its type can hold."""
    narrow = min(torch.finfo(gradient.dtype).max, torch.finfo(call.dtype).max)
    return _growth(call, name) * 100 > narrow


def _check(drawn: Drawn, call: Call, each: Answer, settings: dict[str, object]) -> Iterator[str]:
    """``check_finite=True`` refuses what would be NaN, and names something."""
    try:
        call.run(drawn, **{**settings, "check_finite": True})
    except ValueError as problem:
        names = "|".join([*call.tensors, "logits"])
        if str(problem).startswith("no anchor has a candidate") and not each.value.any():
            return
        if not re.match(f"({names}) must be finite", str(problem)):
            yield f"check_finite: {problem}"
        inputs = [tensor.isfinite().all() for tensor in call.tensors.values()]
        if bool(each.value.isfinite().all()) and all(inputs):
            yield f"check_finite refuses what is finite: {problem}"
        return
    may_overflow = call.bound > torch.finfo(call.dtype).max / 1e3  # by the order of operations
    if not may_overflow and not bool(each.value.isfinite().all()):
        yield "check_finite lets values pass that are not finite"

"""A random call of a random loss, and the logits that it stands for, in float64."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from reference import objectives as reference
from reference.calls import Pairs, leaves_of, pairs_of, with_leaves
from reference.cases import LOSSES
from torch import Tensor

import bayescl
from bayescl import Rows

DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Dice:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def below(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.generator))

    def chance(self, share: float) -> bool:
        return float(torch.rand((), generator=self.generator)) < share

    def one(self, *choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=self.generator))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=self.generator)

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=self.generator)

    def mask(self, share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator) < share


@dataclass
class Drawn:
    """A loss to be made with some engine, and the value of one anchor by the slow way."""

    name: str
    make: Callable[..., bayescl.ContrastiveLoss]
    row: Callable[[Tensor, Tensor, float], Tensor]
    """Of the positive's logit, those of candidates, and the temperature."""
    ranks: str | None = None
    slope: float = 1.0
    """How much more than a logit its value may be off by."""
    crowd: float = 0.0
    """The slope grows by so much with every candidate."""


def draw_loss(dice: Dice) -> Drawn:
    name = dice.one(
        "info_nce", "debiased", "hard", "bayesian", "bayesian", "oracle", "supervised",
        "own function", "own data",
    )  # fmt: skip
    tau_plus = dice.one(0.0, 0.05, 0.1, 0.5, 0.9, dice.uniform(0, 0.99))
    floor = dice.one(-1.0, -1.0, -2.0)
    if name in ("debiased", "hard"):
        power = 0.0 if name == "debiased" else dice.one(0.0, 0.5, 1.0, 3.0)
        kind = bayescl.DebiasedContrastiveLoss
        if name == "hard":
            kind = partial(bayescl.HardContrastiveLoss, concentration=power)
        slow = partial(reference.hard, tau_plus=tau_plus, concentration=power)
        return Drawn(
            name,
            partial(kind, tau_plus=tau_plus, minimum_similarity=floor),
            lambda p, u, t: slow(p, u, minimum_logit=floor / t),
            slope=1 + 2 * power,
            crowd=2 * tau_plus / (1 - tau_plus) * (1 + 2 * power),
        )
    if name == "bayesian":
        alpha, beta = dice.one(0.5, 0.7, 0.9, 1.0), dice.one(0.5, 0.5, 0.7, 0.9, 1.0)
        if alpha == beta == 1:
            beta = 0.9
        given = {"alpha": alpha, "beta": beta, "tau_plus": tau_plus}
        ranks = dice.one("mid", "mid", "upper")
        return Drawn(
            name,
            partial(bayescl.BayesianContrastiveLoss, **given, ranks=ranks),
            lambda p, u, _: reference.bayesian(p, u, **given, ranks=ranks),
            ranks=ranks if alpha > 0.5 or beta > 0.5 else None,
        )
    make, row_at = LOSSES[name]
    slope = 1.5 if name == "own data" else 1.0
    return Drawn(name, make, lambda p, u, t: row_at(t)(p, u), slope=slope)


@dataclass
class Answer:
    """What came back."""

    value: Tensor
    gradients: dict[str, Tensor]


@dataclass
class Call:
    """What a loss is called with."""

    layout: str
    given: dict[str, Any]
    """Its arguments."""
    settings: dict[str, Any]
    """What the loss is made with."""
    temperature: float
    normalize: bool
    own_temperature: str
    """Where it comes from: the loss, a parameter of the loss, or the call."""
    bound: float = field(default=0.0, init=False)
    """No sum or product on the way to a logit exceeds it."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Embeddings or logits, by name."""
        return leaves_of(self.given)

    @property
    def dtype(self) -> torch.dtype:
        dtype = torch.float32
        for tensor in self.tensors.values():
            dtype = torch.promote_types(dtype, tensor.dtype)
        return dtype

    def with_precise_teachers(self) -> dict[str, Any]:
        """The arguments with the teacher's embeddings as they count: of length 1, in float64."""
        return {
            name: self._unit(part)
            if name == "teacher"
            else replace(part, teacher=self._unit(part.teacher))
            if isinstance(part, Rows) and part.teacher is not None
            else part
            for name, part in self.given.items()
        }

    def _unit(self, teacher: Tensor) -> Tensor:
        return directions(teacher.double(), torch.promote_types(teacher.dtype, self.dtype))

    @property
    def knows(self) -> set[str]:
        """The metadata of anchors."""
        anchors = self.given.get("anchors")
        own = anchors.metadata if isinstance(anchors, Rows) else {}
        return {*self.given, *own}

    @property
    def has_target(self) -> bool:
        """Whether some probability may go to candidates."""
        known = {"teacher", "labels"} & self.knows
        return "target" in self.given or (bool(known) and self.settings["positive_share"] != 1)

    def target_error(self, precise: bool = False) -> float:
        """How much of a target probability rounding may move to other candidates."""
        if not (self.has_target and "teacher" in self.knows):
            return 0.0
        precision = torch.float64 if precise else self.dtype
        scale = self.settings["teacher_temperature"] or self.temperature
        return min(2.0, 64 * torch.finfo(precision).eps / scale)

    def run(self, drawn: Drawn, precise: bool = False, **settings: Any) -> Answer:
        """Make the loss and call it, in float64 if ``precise``."""
        temperature: Any = self.temperature
        dtype = torch.float64 if precise else self.dtype
        if self.own_temperature == "learnable":
            temperature = bayescl.LearnableTemperature(
                temperature, temperature / 4, temperature * 4
            )
            temperature.to(dtype)
        loss = drawn.make(
            temperature=temperature if self.own_temperature != "call" else 0.7,
            normalize=self.normalize,
            **self.settings,
            **settings,
        )
        leaves = {
            name: tensor.to(torch.float64 if precise else tensor.dtype, copy=True).requires_grad_()
            for name, tensor in self.tensors.items()
        }
        given = self.with_precise_teachers() if precise else self.given
        given = with_leaves(given, leaves)
        wanted = dict(leaves)
        if self.own_temperature == "call":
            given["temperature"] = torch.tensor(temperature, dtype=dtype, requires_grad=True)
            wanted["temperature"] = given["temperature"]
        elif self.own_temperature == "learnable":
            wanted["temperature"] = temperature.logit
        call = loss if self.layout == "two_views" else getattr(loss, self.layout)
        value = call(**given)
        gradients: dict[str, Tensor] = {}
        if value.requires_grad:
            weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape)
            found = torch.autograd.grad(
                value, list(wanted.values()), weights, materialize_grads=True
            )
            gradients = dict(zip(wanted, found, strict=True))
        return Answer(value.detach(), gradients)

    def logits(self) -> list[Pairs]:
        """What the call stands for, of each direction."""
        wide = {name: tensor.double() for name, tensor in self.tensors.items()}
        if self.normalize and self.layout != "from_logits":
            wide = {name: directions(rows, self.dtype) for name, rows in wide.items()}
        given = with_leaves(self.with_precise_teachers(), wide)
        found = pairs_of(self.layout, given, self.temperature, **self.settings)
        self.bound = max(pairs.bound for pairs in found)
        return found


def directions(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of length 1; zero where a coordinate of the given precision is too small to divide."""
    largest = rows.abs().amax(dim=-1, keepdim=True)
    small = largest < torch.finfo(dtype).tiny
    scaled = rows / torch.where(small, 1.0, largest)
    length = torch.where(small, 1.0, scaled.square().sum(dim=-1, keepdim=True).sqrt())
    return torch.where(small, 0.0, scaled / length)


def draw_rows(dice: Dice, count: int, dim: int, dtype: torch.dtype, *, hostile: bool) -> Tensor:
    """Embeddings of one of several kinds, in some memory layout."""
    rows = dice.normal(count, dim)
    kind = dice.one(*["plain"] * 6, "equal", "repeated", "grid", "zero", "large", "small", "wide")
    if kind == "equal":
        rows = rows[:1].expand(count, dim).clone()
    elif kind == "repeated":
        rows = rows[dice.integers(max(1, count // 2), count)]
    elif kind == "grid":
        rows = rows.round()
    elif kind == "zero":
        rows[dice.below(count)] = 0
    elif kind == "large":
        rows = rows * dice.one(1e3, 1e4, 1e18, 1e30)
    elif kind == "small":
        rows = rows * dice.one(1e-3, 1e-7, 1e-20, 1e-38, 1e-42)
    elif kind == "wide":
        rows = rows * torch.logspace(-6, 6, count, dtype=torch.float64)[:, None]
    rows = rows.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
    if hostile:
        rows[dice.below(count), dice.below(dim)] = dice.one(torch.nan, torch.inf, -torch.inf)
    memory = dice.below(4)
    if memory == 0:
        return rows.T.contiguous().T
    if memory == 1:
        return torch.cat([rows, rows], dim=1)[:, ::2] if dim == 1 else rows
    return rows


def draw_call(seed: int) -> tuple[Dice, Drawn, Call]:
    """The call of a seed: the loss, and what it is called with."""
    dice = Dice(seed)
    drawn = draw_loss(dice)
    layout = dice.one("two_views", "in_batch", "sampled", "from_logits")
    dtype, dim = dice.one(*DTYPES), dice.one(1, 2, 5, 16, 33)
    batch = dice.one(2, 2, 3, 5, 8, 17)
    columns = dice.one(1, 2, 7, 20)
    hostile = dice.chance(0.25)
    needs_groups = drawn.name == "oracle"
    with_groups = needs_groups or (layout != "from_logits" and dice.chance(0.3))
    keys = dice.one((), (), (1,), (2,))
    integers = dice.one(torch.int64, torch.int64, torch.int32, torch.int8)

    def rows(count: int, width: int = dim) -> Tensor:
        other = dice.one(*DTYPES) if dice.chance(0.1) else dtype
        return draw_rows(dice, count, width, other, hostile=hostile and dice.chance(0.5))

    def groups(*shape: int) -> Tensor:
        lowest = dice.one(0, 0, 1)  # -1 is in no group
        return (dice.integers(dice.one(2, 4, 50), *shape, *keys) - lowest).to(integers)

    def domains(*shape: int) -> Tensor:
        return (dice.integers(dice.one(2, 3), *shape, *domain_keys) - 1).to(integers)

    def log_q(*shape: int) -> Tensor:
        return -dice.normal(*shape).abs().to(dice.one(torch.float32, torch.float64))

    def valid(*shape: int) -> Tensor:
        mask = dice.mask(dice.one(0.2, 0.7, 1.0), *shape)
        if dice.chance(0.3):
            mask[dice.below(shape[0])] = False
        mask[0, :2] = True  # nothing at all is refused
        return mask

    tensors: dict[str, Tensor]
    options: dict[str, Any] = {}
    own: dict[str, dict[str, Tensor]] = defaultdict(dict)  # metadata of one side
    masked, corrected, judged = dice.chance(0.3), dice.chance(0.3), dice.chance(0.25)
    with_domains, several = dice.chance(0.2), dice.chance(0.4)
    domain_keys = dice.one((), (1,), (2,))
    pairs = batch
    if several and layout in ("in_batch", "sampled"):
        pairs = dice.one(1, batch, 2 * batch + 1)
        whose = dice.integers(batch, pairs)
        options["anchor_of"] = whose.to(dice.one(torch.int64, torch.int32, torch.uint8))
        if dice.chance(0.5):
            weight = dice.integers(3, pairs).to(dice.one(torch.float32, torch.float64)) / 2
            weight[0] = 1.0
            options["positive_weight"] = weight
    if layout == "two_views":
        tensors = {"view_1": rows(batch), "view_2": rows(batch)}
        if with_groups:
            options["groups"] = groups(batch)
        if with_domains:
            options["domains"] = domains(batch)
        if masked:
            options["valid"] = valid(2 * batch, 2 * batch)
    elif layout == "in_batch":
        tensors = {"anchors": rows(batch), "positives": rows(pairs)}
        more: tuple[int, ...] = ()
        if dice.chance(0.5):
            more = (batch, columns) if dice.chance(0.5) else (columns,)
            tensors["extra"] = rows(math.prod(more)).view(*more, dim)
        if with_groups:
            options["groups"] = groups(pairs)
            if more and (needs_groups or dice.chance(0.5)):
                own["extra"]["groups"] = groups(*more)
        if with_domains:
            options["domains"] = domains(pairs)
            if more and dice.chance(0.5):
                own["extra"]["domains"] = domains(*more)
        if masked:
            options["valid"] = valid(batch, pairs + (columns if more else 0))
        options["both_directions"] = dice.chance(0.3)
        if corrected:
            options["log_q"] = log_q(pairs)
            if more and dice.chance(0.5):
                own["extra"]["log_q"] = log_q(*more)
            if options["both_directions"] and dice.chance(0.5):
                own["anchors"]["log_q"] = log_q(batch)
    elif layout == "sampled":
        are_own = dice.chance(0.5)
        candidates = rows(batch * columns if are_own else columns)
        candidates = candidates.view(*([batch] if are_own else []), columns, dim)
        tensors = {"anchors": rows(batch), "positives": rows(pairs), "candidates": candidates}
        if with_groups:
            options["groups"] = groups(batch)
            own["candidates"]["groups"] = groups(*candidates.shape[:-1])
        if with_domains:
            options["domains"] = domains(batch)
            if dice.chance(0.5):
                own["candidates"]["domains"] = domains(*candidates.shape[:-1])
        if masked:
            options["valid"] = valid(batch, columns)
        if corrected:
            own["candidates"]["log_q"] = log_q(*candidates.shape[:-1])
            own["positives"]["log_q"] = log_q(pairs)
        elif several and not are_own and dice.chance(0.3):
            del tensors["positives"]
            options["positives"] = dice.integers(columns, pairs)
    else:
        logits = rows(batch, columns)
        if dice.chance(0.3):
            logits[dice.mask(0.2, *logits.shape)] = -torch.inf
        tensors = {"positive": rows(batch, 1).squeeze(1), "unlabeled": logits}
        if masked or needs_groups:
            options["valid"] = valid(batch, columns)
        if dice.chance(0.5):
            target = dice.normal(batch, columns).abs() * dice.mask(0.7, batch, columns)
            share = target.sum(dim=1, keepdim=True) + dice.normal(batch, 1).abs()
            options["target"] = (target / share).to(dice.one(*DTYPES))
    if judged and layout != "from_logits":
        kind = dice.one("absolute", "relative")
        number = dice.one(-0.3, 0.0, 0.1) if kind == "absolute" else dice.one(0.5, 0.95, 1.1)
        options["margin"] = bayescl.Margin(**{kind: number}, extra=dice.chance(0.5))
    if layout != "from_logits":
        if drawn.name != "supervised" and dice.chance(0.2):
            draw_target(dice, layout, tensors, options, pairs)
        else:
            draw_likeness(
                dice, layout, tensors, options, own, pairs, integers, drawn.name == "supervised"
            )
        if judged and "teacher" in options and dice.chance(0.5):
            margin = options["margin"]
            if margin.limit(torch.ones(())) >= 1:  # refused if both sides have one teacher
                margin = bayescl.Margin(absolute=-0.1, extra=margin.extra)
            options["margin"] = replace(margin, by_teacher=True)
    settings = {
        "positive_share": dice.one(None, 0.1, 0.5, 0.5, 0.8, 1.0),
        "teacher_temperature": dice.one(None, None, 0.1, 0.01, 1e-4, 5.0),
    }
    sides = {name: Rows(part, **own[name]) if own[name] else part for name, part in tensors.items()}
    temperature = dice.one(0.5, 0.1, 0.07, 0.01, 1.0, 10.0, 1e-4, 1e-9, 1e4)
    where = dice.one("loss", "loss", "learnable", "call")
    normalize = dice.chance(0.7)
    call = Call(layout, sides | options, settings, temperature, normalize, where)
    return dice, drawn, call


def draw_target(
    dice: Dice, layout: str, tensors: dict[str, Tensor], options: dict[str, Any], pairs: int
) -> None:
    """Add target probabilities, whose transpose is a target, too; some anchors have none."""
    batch = len(next(iter(tensors.values())))
    columns = {"two_views": 2 * batch, "in_batch": pairs}.get(layout, 0)
    others = [tensors[side].shape[-2] for side in ("extra", "candidates") if side in tensors]
    shape = (2 * batch if layout == "two_views" else batch, columns + sum(others))
    target = dice.normal(*shape).abs() * dice.mask(0.5, *shape) * dice.mask(0.8, shape[0], 1)
    sums = torch.maximum(target.sum(dim=0), target.sum(dim=1, keepdim=True))
    target = (target / (sums + 0.1)).to(dice.one(*DTYPES))
    options["target"] = target.to_sparse() if dice.chance(0.4) else target


def draw_likeness(
    dice: Dice,
    layout: str,
    tensors: dict[str, Tensor],
    options: dict[str, Any],
    own: dict[str, dict[str, Tensor]],
    pairs: int,
    integers: torch.dtype,
    needs_labels: bool,
) -> None:
    """Add teachers and labels, of some of the sides that may have their own."""
    batch = len(next(iter(tensors.values())))
    count = pairs if layout == "in_batch" else batch
    dim = dice.one(1, 2, 3, 8)

    def teacher(*shape: int) -> Tensor:
        rows = draw_rows(dice, math.prod(shape), dim, dice.one(*DTYPES), hostile=False)
        rows = rows.masked_fill(dice.mask(dice.one(0.0, 0.0, 0.3), len(rows))[:, None], 0)
        return rows.reshape(*shape, dim)

    several = dice.chance(0.3)

    def labels(*shape: int) -> Tensor:
        known = dice.mask(dice.one(0.0, 0.3, 0.8, 1.0), *shape)
        if several:
            classes = dice.integers(2, *shape, 3).to(dice.one(torch.float32, integers))
            return classes.masked_fill(~known[..., None], -1)
        return dice.integers(dice.one(1, 3, 50), *shape).where(known, -1).to(integers)

    for name, draw, likely in (("teacher", teacher, 0.5), ("labels", labels, 0.3)):
        if not (dice.chance(likely) or (name == "labels" and needs_labels)):
            continue
        options[name] = draw(count)
        if layout == "in_batch" and dice.chance(0.2):
            own["anchors"][name] = draw(batch)
            if name == "teacher" and dice.chance(0.5):
                del options[name]
        if layout == "sampled" and "positives" in tensors and dice.chance(0.3):
            own["positives"][name] = draw(pairs)
        for side in ("extra", "candidates"):
            if side in tensors and dice.chance(0.7):
                own[side][name] = draw(*tensors[side].shape[:-1])

"""A random call of a random loss, and the logits that it stands for, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from bayescl.functional.latent import AIMS, STRENGTH
from reference import objectives as reference
from reference.calls import Pairs, pairs_of
from torch import Tensor

import bayescl
from bayescl.functional import LogSumObjective

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


def margin(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
    """An objective of a user's own."""
    kept = unlabeled if valid is None else unlabeled.masked_fill(~valid, 0.0)
    return torch.nn.functional.softplus(kept.tanh().sum(dim=1) - positive.tanh())


class MeanExponential(LogSumObjective):
    """An objective of a user's own, as data."""

    powers = (1.0, 0.0)

    def from_log_sums(self, positive: Tensor, log_sums: tuple[Tensor, ...]) -> Tensor:
        total, count = log_sums
        some = count > -torch.inf
        mean = torch.where(some, total, 0.0) - torch.where(some, count, 0.0)
        return torch.where(some, torch.nn.functional.softplus(mean - positive), 0.0)


@dataclass
class Drawn:
    """A loss to be made with some engine, and the value of one anchor by the slow way."""

    name: str
    make: Callable[..., bayescl.ContrastiveLoss]
    row: Callable[..., Tensor]
    """Of the positive's logit, those of candidates, their posterior, and the temperature; for the
    latent-class loss also where labels settle that posterior, and the objective's settings."""
    ranks: str | None = None
    slope: float = 1.0
    """How much more than a logit its value may be off by."""
    signed: bool = False
    crowd: float = 0.0
    """The slope grows by so much with every candidate."""
    options: dict[str, Any] = field(default_factory=dict)
    """What this loss alone takes in a call."""


def draw_loss(dice: Dice) -> Drawn:
    name = dice.one(
        "info_nce", "debiased", "hard", "bayesian", "bayesian", "oracle", "supervised",
        "latent", "latent", "latent", "own", "own data", "sigmoid",
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
            lambda p, u, _, t: slow(p, u, minimum_logit=floor / t),
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
            lambda p, u, *_: reference.bayesian(p, u, **given, ranks=ranks),
            ranks=ranks if alpha > 0.5 or beta > 0.5 else None,
        )
    if name in ("latent", "supervised"):
        pull = dice.one(0.0, 0.5, 1.0, 3.0)
        threshold = dice.one(0.0, 0.5, 0.9) if name == "latent" else 0.5
        aim, repels = dice.one(*AIMS), dice.chance(0.5)
        if name == "latent":
            pull = dice.one(pull, 1e-3, 100.0)
        strength = {"attraction": pull, "threshold": threshold}

        def latent(p: Tensor, u: Tensor, same: Tensor | None, _: float, **more: Any) -> Tensor:
            if same is None:
                return reference.info_nce(p, u)
            return reference.latent(p, u, same, **strength | more)

        if name == "supervised":
            own = {"attraction": pull, "members_repel": repels}
            make = partial(bayescl.SupervisedContrastiveLoss, **own)
            slow = partial(latent, members_repel=repels)
            return Drawn(name, make, slow, signed=True, slope=2.0)
        make = partial(bayescl.LatentClassContrastiveLoss, **strength, **MEMORY, aim=aim)
        # The stronger members are ranked, the more rounding of a logit counts.
        slope = 2.0 if aim == "classes" else 2.0 + 2 * pull * (1 + STRENGTH)
        return Drawn(name, make, latent, signed=True, slope=slope)
    if name == "sigmoid":
        bias = dice.one(-10.0, -3.0, 0.0, 5.0)
        here = dice.chance(0.5)
        return Drawn(
            name,
            partial(bayescl.SigmoidContrastiveLoss, bias=1.0 if here else bias),
            lambda p, u, *_: reference.sigmoid(p, u, bias=bias),
            crowd=1.0,
            options={"bias": bias} if here else {},
        )
    if name == "own":
        return Drawn(
            name,
            partial(bayescl.ContrastiveLoss, margin),
            lambda p, u, *_: reference.softplus(u.tanh().sum() - p.tanh()),
            crowd=1.0,
        )
    if name == "own data":
        make = partial(bayescl.ContrastiveLoss, MeanExponential())
        return Drawn(
            name, make, lambda p, u, *_: reference.info_nce(p, u - math.log(max(1, len(u))))
        )
    make = bayescl.OracleContrastiveLoss if name == "oracle" else bayescl.InfoNCELoss
    return Drawn(name, make, lambda p, u, *_: reference.info_nce(p, u))


MEMORY = {"num_classes": 4, "memory_size": 64, "refit_every": 1}


@dataclass
class Call:
    """What a loss is called with."""

    layout: str
    tensors: dict[str, Tensor]
    options: dict[str, Any]
    temperature: float
    normalize: bool
    own_temperature: str
    """Where it comes from: the loss, a parameter of the loss, or the call."""
    bound: float = field(default=0.0, init=False)
    """No sum or product on the way to a logit exceeds it."""

    @property
    def dtype(self) -> torch.dtype:
        dtype = torch.float32
        for tensor in self.tensors.values():
            dtype = torch.promote_types(dtype, tensor.dtype)
        return dtype

    def run(self, drawn: Drawn, memory: Any, precise: bool = False, **settings: Any) -> Answer:
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
            **settings,
        )
        if memory is not None:
            loss.memory.set_extra_state(memory)
        posteriors: list[Any] = []
        losses_of = loss._losses_of

        def watched(batch: Any, scale: Any) -> Tensor:
            known = (None, None) if not batch.knows_pairs else batch.posterior()
            if batch.anchor_of is not None:
                known = tuple(None if x is None else x[batch.anchor_of] for x in known)
            objective = loss.objective(scale) if batch.knows_pairs else None
            posteriors.append((*known, objective, float(batch.trust_of_unsettled)))
            return losses_of(batch, scale)

        loss._losses_of = watched  # type: ignore[method-assign]
        leaves = {
            name: tensor.to(torch.float64 if precise else tensor.dtype, copy=True).requires_grad_()
            for name, tensor in self.tensors.items()
        }
        options = self.options | drawn.options
        if self.own_temperature == "call":
            scale = torch.tensor(temperature, dtype=dtype, requires_grad=True)
            options["temperature"] = scale
        call = loss if self.layout == "two_views" else getattr(loss, self.layout)
        value = call(**leaves, **options)
        gradients: dict[str, Tensor] = {}
        if value.requires_grad:
            wanted = dict(leaves)
            if self.own_temperature == "call":
                wanted["temperature"] = options["temperature"]
            elif self.own_temperature == "learnable":
                wanted["temperature"] = temperature.logit
            weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape)
            found = torch.autograd.grad(
                value, list(wanted.values()), weights, materialize_grads=True
            )
            gradients = dict(zip(wanted, found, strict=True))
        return Answer(value.detach(), gradients, loss, posteriors)

    def logits(self) -> list[Pairs]:
        """What the call stands for, of each direction."""
        wide = {name: tensor.double() for name, tensor in self.tensors.items()}
        if self.layout == "from_logits":
            positive, unlabeled = wide.values()
            counted, valid = unlabeled != -torch.inf, self.options.get("valid")
            if valid is not None:
                counted = counted & valid
            finite = [x[x.isfinite()].abs() for x in (positive, unlabeled)]
            bound = max([float(x.max()) for x in finite if x.numel()], default=0.0)
            if "log_q" in self.options:
                positive = positive - self.options["positive_log_q"]
                unlabeled = unlabeled - self.options["log_q"]
            ones = torch.ones_like(positive)
            found = [Pairs(positive, unlabeled, counted, counted | True, ones, torch.inf, bound)]
        else:
            if self.normalize:
                wide = {name: directions(rows, self.dtype) for name, rows in wide.items()}
            found = pairs_of(self.layout, wide, self.options, self.temperature)
        self.bound = max(pairs.bound for pairs in found)
        return found


def directions(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of length 1; zero where a coordinate of the given precision is too small to divide."""
    largest = rows.abs().amax(dim=-1, keepdim=True)
    small = largest < torch.finfo(dtype).tiny
    scaled = rows / torch.where(small, 1.0, largest)
    length = torch.where(small, 1.0, scaled.square().sum(dim=-1, keepdim=True).sqrt())
    return torch.where(small, 0.0, scaled / length)


@dataclass
class Answer:
    """What came back."""

    value: Tensor
    gradients: dict[str, Tensor]
    loss: bayescl.ContrastiveLoss
    posteriors: list[Any]


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


def draw_call(seed: int) -> tuple[Dice, Drawn, Call, Any]:
    """The call of a seed: the loss, what it is called with, and what it remembers."""
    dice = Dice(seed)
    drawn = draw_loss(dice)
    layout = dice.one("two_views", "in_batch", "sampled", "from_logits")
    dtype, dim = dice.one(*DTYPES), dice.one(1, 2, 5, 16, 33)
    batch = dice.one(2, 2, 3, 5, 8, 17)
    columns = dice.one(1, 2, 7, 20)
    hostile = dice.chance(0.25)
    needs_groups = drawn.name in ("oracle", "supervised")
    with_groups = needs_groups or (layout != "from_logits" and dice.chance(0.3))
    keys = () if drawn.name == "supervised" else dice.one((), (), (1,), (2,))
    labels = dice.one(torch.int64, torch.int64, torch.int32, torch.int8)

    def rows(count: int, width: int = dim) -> Tensor:
        other = dice.one(*DTYPES) if dice.chance(0.1) else dtype
        return draw_rows(dice, count, width, other, hostile=hostile and dice.chance(0.5))

    def groups(*shape: int) -> Tensor:
        lowest = dice.one(0, 0, 1)  # -1 is in no group
        return (dice.integers(dice.one(2, 4, 50), *shape, *keys) - lowest).to(labels)

    def domains(*shape: int) -> Tensor:
        return (dice.integers(dice.one(2, 3), *shape, *domain_keys) - 1).to(labels)

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
                options["extra_groups"] = groups(*more)
        if with_domains:
            options["domains"] = domains(pairs)
            if more and dice.chance(0.5):
                options["extra_domains"] = domains(*more)
        if masked:
            options["valid"] = valid(batch, pairs + (columns if more else 0))
        options["both_directions"] = dice.chance(0.3)
        if corrected:
            options["log_q"] = log_q(pairs + (columns if len(more) == 1 else 0))
            if options["both_directions"] and dice.chance(0.5):
                options["anchor_log_q"] = log_q(batch)
    elif layout == "sampled":
        own = dice.chance(0.5)
        candidates = rows(batch * columns).view(batch, columns, dim) if own else rows(columns)
        tensors = {"anchors": rows(batch), "positives": rows(pairs), "candidates": candidates}
        if with_groups:
            options["groups"] = groups(batch)
            options["candidate_groups"] = groups(*candidates.shape[:-1])
        if with_domains:
            options["domains"] = domains(batch)
            if dice.chance(0.5):
                options["candidate_domains"] = domains(*candidates.shape[:-1])
        if masked:
            options["valid"] = valid(batch, columns)
        if corrected:
            options |= {"log_q": log_q(*candidates.shape[:-1]), "positive_log_q": log_q(pairs)}
        elif several and not own and dice.chance(0.3):
            del tensors["positives"]
            options["positives"] = dice.integers(columns, pairs)
    else:
        logits = rows(batch, columns)
        if dice.chance(0.3):
            logits[dice.mask(0.2, *logits.shape)] = -torch.inf
        tensors = {"positive": rows(batch, 1).squeeze(1), "unlabeled": logits}
        if masked or needs_groups:
            options["valid"] = valid(batch, columns)
        if corrected:
            shape = dice.one((columns,), (batch, columns))
            options |= {"log_q": log_q(*shape), "positive_log_q": log_q(batch)}
    if judged and layout != "from_logits":
        kind = dice.one("absolute", "relative")
        number = dice.one(-0.3, 0.0, 0.1) if kind == "absolute" else dice.one(0.5, 0.95, 1.1)
        options["margin"] = bayescl.Margin(**{kind: number}, extra=dice.chance(0.5))
        if dice.chance(0.4) and "positives" not in options:
            skips = "extra" in tensors and not options["margin"].extra and dice.chance(0.5)
            judged_rows = list(tensors.values())[: -1 if skips else None]
            options["guide"] = tuple(
                dice.normal(*part.shape[:-1], 3).to(dice.one(*DTYPES)) for part in judged_rows
            )
    learns = drawn.name == "latent" and layout != "from_logits"
    if learns and dice.chance(0.6):

        def known(*shape: int) -> Tensor:
            found = dice.integers(dice.one(1, 3, 50), *shape).to(labels)
            return found.where(dice.mask(dice.one(0.0, 0.3, 1.0), *shape), -1).to(labels)

        count = pairs if layout == "in_batch" else batch
        options["labels"] = known(count)
        if dice.chance(0.3):
            options["audit"] = known(count)
        if "extra" in tensors and dice.chance(0.7):
            options["extra_labels"] = known(*tensors["extra"].shape[:-1])
        if layout == "sampled" and dice.chance(0.7):
            options["candidate_labels"] = known(*tensors["candidates"].shape[:-1])
    temperature = dice.one(0.5, 0.1, 0.07, 0.01, 1.0, 10.0, 1e-4, 1e-9, 1e4)
    where = dice.one("loss", "loss", "learnable", "call")
    call = Call(layout, tensors, options, temperature, dice.chance(0.7), where)
    memory = None
    if learns and dice.chance(0.8):
        memory = remembered(dice, drawn, dim)
    return dice, drawn, call, memory


def remembered(dice: Dice, drawn: Drawn, dim: int) -> Any:
    """What a loss remembers of four steps with items of four classes."""
    loss, centers = drawn.make(), dice.normal(4, dim)
    for _ in range(4):
        item = centers[dice.integers(4, 24)]
        loss(*((item + 0.1 * dice.normal(24, dim)).float() for _ in range(2)))
    state = loss.memory.get_extra_state()
    if dice.chance(0.5):  # trust it so far that many members attract
        state["agreement"] = torch.full_like(state["agreement"], 0.66)
    return state

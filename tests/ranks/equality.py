"""Ranks with unequal batches against one process with the whole batch: how far apart they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import bayescl
from bayescl import Rows
from bayescl.functional import info_nce_loss
from ranks.launch import Findings

BATCHES = {2: (3, 5), 3: (2, 5, 1), 4: (1, 4, 2, 3)}
EXTRA = {2: (2, 3), 3: (3, 1, 2), 4: (2, 1, 1, 3)}
DIM = 6

bayesian = partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.7, tau_plus=0.1)
LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": partial(bayescl.DebiasedContrastiveLoss, tau_plus=0.1),
    "hard": partial(bayescl.HardContrastiveLoss, tau_plus=0.1, concentration=0.5),
    "bayesian": bayesian,
    "bayesian, in blocks": partial(bayesian, engine="blocked", chunk_size=3),
    "oracle": bayescl.OracleContrastiveLoss,
    "supervised": bayescl.SupervisedContrastiveLoss,
    "own function": partial(bayescl.ContrastiveLoss, info_nce_loss),
}


class Data(SimpleNamespace):
    """Everything that a layout may be fed, of the whole batch."""

    @classmethod
    def draw(cls, batch: int, extra: int, dtype: torch.dtype) -> Data:
        generator = torch.Generator().manual_seed(17)

        def normal(*shape: int) -> Tensor:
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
            return drawn.to(dtype).requires_grad_()

        def groups(*shape: int) -> Tensor:
            return torch.randint(-2, 4, shape, generator=generator)

        def labels(*shape: int) -> Tensor:
            return torch.randint(-1, 3, shape, generator=generator)

        def teacher(*shape: int) -> Tensor:
            return normal(*shape, 3).detach()

        def mask(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator) < 0.7

        return cls(
            more=normal(batch, DIM),
            weights=torch.rand(batch, 2, generator=generator).to(dtype),
            domains=torch.randint(-1, 2, (batch, 2), generator=generator),
            first=normal(batch, DIM),
            second=normal(batch, DIM),
            extra=normal(extra, DIM),
            own=normal(batch, 4, DIM),
            logits=normal(batch, 5),
            groups=groups(batch),
            extra_groups=groups(extra),
            own_groups=groups(batch, 4),
            labels=labels(batch),
            extra_labels=labels(extra),
            teacher=teacher(batch),
            more_teacher=teacher(batch),
            extra_teacher=teacher(extra),
            own_teacher=teacher(batch, 4),
            views_mask=mask(2 * batch, 2 * batch),
            pairs_mask=mask(batch, batch + extra),
            logits_mask=mask(batch, 4),
        )

    def leaves(self) -> list[Tensor]:
        return [value for value in vars(self).values() if value.requires_grad]

    def of(self, part: Part) -> SimpleNamespace:
        """The rows of one process, with masks for the columns of all."""
        rows, number = part.rows, torch.arange(len(self.first))
        names = ("first", "second", "own", "logits", "groups", "own_groups", "logits_mask")
        names += ("more", "weights", "domains", "labels", "teacher", "more_teacher", "own_teacher")
        same_mask = self.pairs_mask[:, : len(self.extra)] & (number > 0)[:, None]
        return SimpleNamespace(
            **{name: getattr(self, name)[rows] for name in names},
            extra=self.extra[part.extra],
            extra_groups=self.extra_groups[part.extra],
            extra_labels=self.extra_labels[part.extra],
            extra_teacher=self.extra_teacher[part.extra],
            keys=torch.stack([self.groups, number // 2], dim=1)[rows],  # one equal is enough
            views_mask=self.views_mask[part.both_views][:, part.views_columns],
            pairs_mask=self.pairs_mask[rows],  # all positives by rank, then all extra
            own_mask=torch.cat([self.pairs_mask[:, : len(number)], self.logits_mask], dim=1)[rows],
            # Two positives to each anchor.
            several={
                "anchor_of": torch.arange(len(rows)).repeat(2),
                "positive_weight": self.weights[rows].T.flatten(),
            },
            pairs=torch.cat([self.second[rows], self.more[rows]]),
            pairs_teacher=torch.cat([self.teacher[rows], self.more_teacher[rows]]),
            same_mask=same_mask[rows],
            every=self,
        )


class Part(NamedTuple):
    """The rows of one process, and the columns of the whole batch in the order of their ranks."""

    rows: Tensor
    extra: Tensor
    both_views: Tensor
    views_columns: Tensor


def parts(batches: tuple[int, ...], extras: tuple[int, ...]) -> list[Part]:
    batch = sum(batches)
    rows, extra = torch.arange(batch).split(batches), torch.arange(sum(extras)).split(extras)
    views = [torch.cat([own, batch + own]) for own in rows]
    columns = torch.cat(views)
    return [Part(*own, columns) for own in zip(rows, extra, views, strict=True)]


LAYOUTS: dict[str, Callable[[bayescl.ContrastiveLoss, SimpleNamespace], Tensor]] = {
    "two views": lambda loss, x: loss(x.first, x.second),
    "two views, keys": lambda loss, x: loss(x.first, x.second, groups=x.keys),
    "both directions, keys": lambda loss, x: loss.in_batch(
        x.first, x.second, groups=x.keys, both_directions=True
    ),
    "two views, mask": lambda loss, x: loss(x.first, x.second, groups=x.groups, valid=x.views_mask),
    "in batch": lambda loss, x: loss.in_batch(x.first, x.second),
    "in batch, extra, mask": lambda loss, x: loss.in_batch(
        x.first, x.second, extra=x.extra, valid=x.pairs_mask
    ),
    "both directions, groups, log_q": lambda loss, x: loss.in_batch(
        Rows(x.first, log_q=x.first[:, 0]),
        x.second,
        extra=Rows(x.extra, groups=x.extra_groups, log_q=x.extra[:, 0]),
        groups=x.groups,
        log_q=x.second[:, 0],
        both_directions=True,
    ),
    "several positives, both directions": lambda loss, x: loss.in_batch(
        Rows(x.first, log_q=x.first[:, 0]),
        x.pairs,
        **x.several,
        groups=x.groups.repeat(2),
        domains=x.domains.repeat(2, 1),
        log_q=x.pairs[:, 0],
        both_directions=True,
    ),
    "extra of each anchor, domains, mask": lambda loss, x: loss.in_batch(
        x.first,
        x.second,
        extra=Rows(x.own, groups=x.own_groups),
        groups=x.groups,
        domains=x.domains,
        valid=x.own_mask,
    ),
    "sampled, several positives, margin": lambda loss, x: loss.sampled(
        x.first,
        x.pairs,
        Rows(x.extra, groups=x.extra_groups),
        **x.several,
        groups=x.groups,
        margin=bayescl.Margin(relative=0.8),
    ),
    "two views, teacher, labels": lambda loss, x: loss(
        x.first, x.second, teacher=x.teacher, labels=x.labels, groups=x.keys
    ),
    "two views, margin by teacher": lambda loss, x: loss(
        x.first, x.second, teacher=x.teacher, margin=bayescl.Margin(relative=0.8, by_teacher=True)
    ),
    "both directions, teacher, labels, extra": lambda loss, x: loss.in_batch(
        x.first,
        x.second,
        extra=Rows(x.extra, groups=x.extra_groups, labels=x.extra_labels, teacher=x.extra_teacher),
        groups=x.groups,
        labels=x.labels,
        teacher=x.teacher,
        both_directions=True,
    ),
    "several positives, teacher of each side": lambda loss, x: loss.in_batch(
        Rows(x.first, teacher=x.teacher),
        Rows(x.pairs, teacher=x.pairs_teacher),
        **x.several,
        labels=x.labels.repeat(2),
        groups=x.groups.repeat(2),
        both_directions=True,
    ),
    "extra of each anchor, teacher": lambda loss, x: loss.in_batch(
        x.first, x.second, extra=Rows(x.own, teacher=x.own_teacher), teacher=x.teacher
    ),
    "sampled, teacher, labels": lambda loss, x: loss.sampled(
        x.first,
        x.second,
        Rows(x.extra, groups=x.extra_groups, labels=x.extra_labels, teacher=x.extra_teacher),
        groups=x.groups,
        labels=x.labels,
        teacher=x.teacher,
    ),
    # The first rank's anchors may be left without any candidate, as one process's may be.
    "sampled, the same on every rank": lambda loss, x: loss.sampled(
        x.first,
        x.second,
        Rows(x.every.extra, groups=x.every.extra_groups, labels=x.every.extra_labels),
        groups=x.groups,
        labels=x.labels,
        valid=x.same_mask,
        gather_candidates=False,
    ),
    "sampled for each": lambda loss, x: loss.sampled(
        x.first, x.second, Rows(x.own, groups=x.own_groups), groups=x.groups
    ),
    "from logits": lambda loss, x: loss.from_logits(
        x.logits[:, 0], x.logits[:, 1:], valid=x.logits_mask
    ),
}
WITHOUT_GROUPS = (
    "two views", "in batch", "in batch, extra, mask", "two views, margin by teacher",
    "extra of each anchor, teacher",
)  # fmt: skip
"""Layouts that the oracle refuses."""
WITH_LABELS = (
    "from logits", "sampled, the same on every rank", "several positives, teacher of each side"
)  # fmt: skip
"""Layouts, besides those that say so, that the supervised loss takes."""


def cases() -> Iterator[tuple[str, str, torch.dtype]]:
    """Every layout with every loss in float64, and with one loss in float32."""
    for layout, name in product(LAYOUTS, LOSSES):
        lacks_groups = name == "oracle" and layout in WITHOUT_GROUPS
        has_labels = "labels" in layout or layout in WITH_LABELS
        if not (lacks_groups or (name == "supervised" and not has_labels)):
            yield layout, name, torch.float64
            if name == "bayesian":
                yield layout, name, torch.float32


def distance(value: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected entry."""
    scale = expected.abs().max()
    return ((value - expected).abs().max() / torch.where(scale > 0, scale, 1.0)).item()


def summed(value: Tensor) -> Tensor:
    """A value's sum over processes."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total


def summed_over_ranks(vectors: list[Tensor]) -> list[Tensor]:
    """Add vectors up over processes, all in one message."""
    total = summed(torch.cat([vector.double() for vector in vectors]))
    return list(total.split([len(vector) for vector in vectors]))


def found_by(loss: bayescl.ContrastiveLoss, value: Tensor, data: Data) -> list[Tensor]:
    """The value, the gradient of everything that was fed, and those of the loss's parameters."""
    leaves, parameters = data.leaves(), list(loss.parameters())
    gradients = torch.autograd.grad(value, [*leaves, *parameters], materialize_grads=True)
    fed = torch.cat([gradient.flatten() for gradient in gradients[: len(leaves)]])
    return [value.detach().reshape(1), fed, torch.stack(gradients[len(leaves) :])]


def layouts(rank: int, world_size: int) -> Findings:
    """Distances of value, gradients and the temperature's gradient, by case and precision."""
    batches, extras = BATCHES[world_size], EXTRA[world_size]
    mine = parts(batches, extras)[rank]
    whole = parts((sum(batches),), (sum(extras),))[0]
    names, own_found, one_found = [], [], []
    for layout, name, dtype in cases():
        names.append(f"{layout}; {name}; {dtype}")
        for found, part, gather in ((own_found, mine, True), (one_found, whole, False)):
            data = Data.draw(sum(batches), sum(extras), dtype)
            loss = LOSSES[name](temperature=bayescl.LearnableTemperature(0.3), gather=gather)
            found += found_by(loss, LAYOUTS[layout](loss, data.of(part)), data)
    distances = [
        distance(total / world_size, expected.double())
        for total, expected in zip(summed_over_ranks(own_found), one_found, strict=True)
    ]
    return {name: tuple(distances[3 * i : 3 * i + 3]) for i, name in enumerate(names)}


class Model(nn.Module):
    """A small encoder with its loss, so that a learnable temperature is averaged too."""

    def __init__(self, loss: bayescl.ContrastiveLoss, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.encoder = nn.Sequential(nn.Linear(DIM, 8), nn.Tanh(), nn.Linear(8, 4)).to(dtype)
        self.loss = loss

    def forward(
        self, first: Tensor, second: Tensor, groups: Tensor, labels: Tensor, layout: str
    ) -> Tensor:
        first, second = self.encoder(torch.cat([first, second])).chunk(2)
        known = {"groups": groups, "labels": labels, "teacher": (first + second).detach()}
        if layout == "two views":
            return self.loss(first, second, **known)
        return self.loss.in_batch(first, second, **known, both_directions=True)


def data_parallel(rank: int, world_size: int) -> Findings:
    """Distances of parameters' gradients under DistributedDataParallel, by case and precision."""
    batches, extras = BATCHES[world_size], EXTRA[world_size]
    mine = parts(batches, extras)[rank]
    found: Findings = {}
    both = (torch.float32, torch.float64)
    for layout, name, dtype in product(("two views", "both directions"), LOSSES, both):
        data = Data.draw(sum(batches), sum(extras), dtype)
        one, own = (
            Model(LOSSES[name](temperature=bayescl.LearnableTemperature(0.3), gather=gather), dtype)
            for gather in (False, True)
        )
        one(data.first, data.second, data.groups, data.labels, layout).backward()
        fed = (part[mine.rows] for part in (data.first, data.second, data.groups, data.labels))
        wrapped = DistributedDataParallel(own)
        wrapped(*fed, layout).backward()
        found[f"{layout}; {name}; {dtype}"] = max(
            distance(parameter.grad, other.grad)
            for parameter, other in zip(
                own.encoder.parameters(), one.encoder.parameters(), strict=True
            )
        )
    return found

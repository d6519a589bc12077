"""Ranks with unequal batches against one process with the whole batch: how far apart they are."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from reference.calls import leaves_of, rows_of, with_leaves
from reference.cases import CASES, LOSSES, Case
from torch import Tensor
from torch import distributed as dist

import bayescl
from ranks.launch import Findings

CUTS = {2: (3,), 3: (2, -1)}
"""Where rows are cut into unequal parts, by the number of processes."""
REPLICATED = ("positives among the candidates", "shared candidates, margin by teacher")
"""Cases whose candidates are the same on every process."""


def parts(count: int, world_size: int) -> tuple[Tensor, ...]:
    """The rows of each process."""
    return torch.arange(count).tensor_split(CUTS[world_size])


def part_of(case: Case, given: dict[str, Any], rank: int, world_size: int) -> dict[str, Any]:
    """The arguments of one process. Its mask has the columns of all, in the order of ranks."""
    count = len(next(iter(leaves_of(given).values())))
    anchors = parts(count, world_size)
    whose = given.get("anchor_of", torch.arange(count))
    pairs = [torch.isin(whose, own).nonzero().flatten() for own in anchors]
    own, of_pairs = anchors[rank], pairs[rank]
    index = dict.fromkeys(given, own)
    index |= dict.fromkeys(("positives", "positive_weight"), of_pairs)
    columns = None
    for name in ("extra", "candidates"):
        if name in given and not rows_of(given[name]).are_own:
            others = parts(len(rows_of(given[name])), world_size)
            index[name] = slice(None) if "gather_candidates" in given else others[rank]
    if case.layout == "two_views":
        columns = torch.cat([torch.cat([one, one + count]) for one in anchors])
        index |= dict.fromkeys(("valid", "target"), torch.cat([own, own + count]))
    elif case.layout == "in_batch":
        index |= dict.fromkeys(("groups", "domains", "labels", "teacher", "log_q"), of_pairs)
        columns = torch.cat(pairs)
    part = {
        name: value[index[name]] if isinstance(value, Tensor | bayescl.Rows) else value
        for name, value in given.items()
    }
    for name in {"valid", "target"} & given.keys():
        if columns is not None:
            kept = of_pairs if case.given.get("both_directions") else columns
            rest = torch.arange(len(columns), given[name].shape[1])
            part[name] = part[name][:, torch.cat([kept, rest])]
    if "anchor_of" in given:
        part["anchor_of"] = whose[of_pairs] - own[0]
    return part


def cases() -> Iterator[tuple[str, str, torch.dtype]]:
    """Every case with every loss in float64, and with one loss in float32."""
    for case, name in product(CASES, LOSSES):
        if CASES[case].suits(name):
            yield case, name, torch.float64
            if name == "bayesian":
                yield case, name, torch.float32


def distance(value: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected entry."""
    scale = expected.abs().max()
    return ((value - expected).abs().max() / torch.where(scale > 0, scale, 1.0)).item()


def summed(value: Tensor) -> Tensor:
    """A value's sum over processes."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total


def found_by(case: str, name: str, dtype: torch.dtype, rank: int, world_size: int) -> list[Tensor]:
    """The value and the gradients of the rows and of the temperature, on one of the processes."""
    given = dict(CASES[case].given)
    if "target" in given:
        given["target"] = given["target"].to_dense()
    if given.get("both_directions"):
        given.pop("valid", None)  # refused where processes gather
    if case in REPLICATED:
        given["gather_candidates"] = False
    leaves = {
        key: part.to(dtype, copy=True).requires_grad_() for key, part in leaves_of(given).items()
    }
    given = with_leaves(given, leaves)
    if world_size > 1:
        given = part_of(CASES[case], given, rank, world_size)
    # Logits are exact at this temperature, so ties stay ties on every process.
    temperature = torch.tensor(0.25, dtype=dtype, requires_grad=True)
    settings = CASES[case].settings_of(name)
    loss = LOSSES[name][0](gather=world_size > 1, normalize=False, **settings)
    value = CASES[case].run(loss, given, temperature=temperature)
    wanted = [*leaves.values(), temperature]
    gradients = torch.autograd.grad(value, wanted, materialize_grads=True)
    return [value.detach().reshape(1), torch.cat([part.flatten() for part in gradients])]


def layouts(rank: int, world_size: int) -> Findings:
    """Distances of value and gradients, by case and precision."""
    found: Findings = {}
    every = list(cases())
    own = [part.double() for each in every for part in found_by(*each, rank, world_size)]
    totals = summed(torch.cat(own)).split([len(part) for part in own])  # in one message
    for place, each in enumerate(every):
        expected = [part.double() for part in found_by(*each, 0, 1)]
        pairs = zip(totals[2 * place : 2 * place + 2], expected, strict=True)
        found["; ".join(map(str, each))] = max(
            distance(total / world_size, other) for total, other in pairs
        )
    return found

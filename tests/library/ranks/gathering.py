"""Gathering by itself, and a gradient cache on every process."""

import torch
from reference.cases import DIM
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import bayescl
from bayescl import cached_backward, distributed
from ranks.equality import distance, parts, summed
from ranks.launch import Findings

COUNT = 8


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def own_slice(rank: int, world_size: int) -> slice:
    own = parts(COUNT, world_size)[rank].tolist()
    return slice(own[0], own[-1] + 1)


def gathered(rank: int, world_size: int) -> Findings:
    own = own_slice(rank, world_size)
    whole, labels = drawn(COUNT, 2, 3), torch.arange(COUNT)
    kinds = {
        "rows": whole,
        "a slice with strides": whole.transpose(1, 2),
        "integers": labels,
        "booleans": labels > 2,
        "bfloat16": whole.bfloat16(),
        "float16": whole.half(),
    }
    found: Findings = {
        name: torch.equal(distributed.gather(rows[own]), rows) for name, rows in kinds.items()
    }
    with torch.no_grad():
        silent = distributed.gather(whole[own].requires_grad_())
    found["no gradient asked for"] = not silent.requires_grad

    # Every process weighs all rows in its own way; owners must receive the sum over processes.
    rows = whole[own].clone().requires_grad_()
    upstream = [drawn(COUNT, 2, 3, seed=1 + other) for other in range(world_size)]
    (distributed.gather(rows) * upstream[rank]).sum().backward()
    found["gradient"] = distance(rows.grad, sum(upstream)[own])

    # sum of cubes on every process: second derivative 6 x on each, added up over processes
    rows = whole[own].clone().requires_grad_()
    (first,) = torch.autograd.grad(distributed.gather(rows).pow(3).sum(), rows, create_graph=True)
    found["first derivative"] = distance(first.detach(), 3 * world_size * whole[own].square())
    (second,) = torch.autograd.grad(distributed.gather(first).sum(), rows)
    # Both the cubes and this sum are taken by every process.
    found["second derivative"] = distance(second, 6 * world_size**2 * whole[own])
    return found


def reductions(rank: int, world_size: int) -> Findings:
    """Sums of ranks add up to the whole batch's sum; losses per anchor are the whole batch's."""
    own = own_slice(rank, world_size)
    inputs = [drawn(COUNT, DIM, seed=seed).requires_grad_() for seed in (0, 1)]
    parts = [rows.detach()[own].requires_grad_() for rows in inputs]
    expected = bayescl.BayesianContrastiveLoss(reduction="sum")(*inputs)
    expected.backward()
    value = bayescl.BayesianContrastiveLoss(reduction="sum", gather=True)(*parts)
    value.backward()
    each = bayescl.BayesianContrastiveLoss(reduction="none")(*inputs).detach()
    mine = bayescl.BayesianContrastiveLoss(reduction="none", gather=True)(*parts).detach()
    return {
        "sum": distance(summed(value), expected.detach()),
        "gradient of the sum": max(
            distance(part.grad, whole.grad[own]) for part, whole in zip(parts, inputs, strict=True)
        ),
        "one per anchor": distance(mine, torch.cat([view[own] for view in each.chunk(2)])),
    }


def batches_of_domains(rank: int, world_size: int) -> Findings:
    """The items that every process draws, without being told its rank."""
    domains = torch.arange(240) % 5
    own = [item for batch in bayescl.DomainBatchSampler(domains, 24, 2) for item in batch]
    everyone = distributed.gather(torch.tensor(own))
    return {"distinct": len(everyone.unique()), "drawn": len(everyone)}


def encoder() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(DIM, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4)
    )


def sharded(rank: int, world_size: int) -> Findings:
    """An encoder whose parameters are sharded (FSDP2) against one with whole parameters."""
    own = own_slice(rank, world_size)
    items = [drawn(COUNT, DIM, seed=seed).float() for seed in (0, 1)]
    encoders = []
    for _ in range(2):
        torch.manual_seed(5)
        encoders.append(nn.Sequential(nn.Linear(DIM, 16), nn.ReLU(), nn.Linear(16, 4)))
    shards, whole = encoders
    fully_shard(shards, mesh=init_device_mesh("cpu", (world_size,)))
    temperature = bayescl.LearnableTemperature(0.2)
    loss = bayescl.BayesianContrastiveLoss(gather=True, temperature=temperature)
    value = loss(*(shards(part[own]) for part in items), teacher=items[0][own])
    value.backward()
    expected = bayescl.BayesianContrastiveLoss(temperature=0.2)
    expected(*map(whole, items), teacher=items[0]).backward()
    return {
        "gradients": max(
            distance(part.grad.full_tensor(), other.grad)
            for part, other in zip(shards.parameters(), whole.parameters(), strict=True)
        )
    }


def cache(rank: int, world_size: int) -> Findings:
    """The gradient cache under DistributedDataParallel, ranks with unequal numbers of chunks."""
    chunks = [
        [drawn(4, DIM, seed=100 * rank + 10 * view + k).float() for k in range(1 + rank)]
        for view in range(2)
    ]
    wrapped, plain = DistributedDataParallel(encoder()), encoder()
    loss = bayescl.BayesianContrastiveLoss(gather=True)
    distances = []
    for step in range(2):
        # Ranks normalize by their own rows; forward passes start from rank 0's running statistics.
        for buffer in plain.buffers():
            dist.broadcast(buffer, src=0)
        wrapped.zero_grad()
        plain.zero_grad()
        torch.manual_seed(1000 * step + rank)
        value, after = cached_backward(loss, wrapped, *chunks), torch.rand(1)
        torch.manual_seed(1000 * step + rank)
        expected = loss(*(torch.cat([plain(chunk) for chunk in view]) for view in chunks))
        expected.backward()
        distances += [distance(value, expected.detach()), float((after - torch.rand(1)).abs())]
        for parameter, other in zip(wrapped.module.parameters(), plain.parameters(), strict=True):
            mean = summed(other.grad) / world_size
            distances.append(float((parameter.grad - mean).abs().max()))
        for buffer, other in zip(wrapped.module.buffers(), plain.buffers(), strict=True):
            distances.append(distance(buffer.float(), other.float()))
    return {"distance": max(distances)}

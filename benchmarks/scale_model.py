"""The cost of a loss over all devices at large scale: a formula, calibrated on one CPU core.

    python benchmarks/scale_model.py

Every figure comes from a formula in this file; nothing here runs on several devices. Two things are
measured: seconds per logit on one CPU core, and the bytes per logit that the dense engine keeps for
its backward pass. PyTorch counts the encoders' operations on tensors without storage. The rates of
a device are assumptions; options change them.

The layout is two views of a batch with ``gather=True``: B items per step on W devices are 2 B rows.
Each device has 2 B / W of them as anchors and all 2 B as candidates.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from harness import time_side_by_side, write_result
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

import bayescl
from bayescl.distributed import NOTE_BYTES
from bayescl.engines import CandidateRule, ContrastiveBatch
from bayescl.engines.chunked import default_chunk_size

FLOAT = 4
"""Bytes of a float32, in which rows are gathered."""

POSITION = 8
"""Bytes of the column that a sort on a GPU moves with each value."""

SORT_PASSES = 4
"""Passes of a radix sort over float32 values, a byte at a time."""

PRODUCTS = {
    ("chunked", "InfoNCE"): 3,
    ("chunked", "Bayesian"): 3,
    ("fused", "InfoNCE"): 5,
    ("fused", "Bayesian"): 7,
}
"""Products of embeddings per logit: logits once and two gradients; the fused engine computes its
logits again in every kernel: three forward (one without weights) and two backward."""


def rows_of(batch: int) -> int:
    """Rows of two views of a batch."""
    return 2 * batch


def logits_per_device(batch: int, devices: int) -> int:
    """Anchors of a device times candidates of all devices."""
    return rows_of(batch) // devices * rows_of(batch)


def gathered_bytes(batch: int, devices: int, dim: int) -> int:
    """Bytes that a device receives in the all-gather, and sends in the reduce-scatter of a ring."""
    return (rows_of(batch) - rows_of(batch) // devices) * dim * FLOAT


def note_bytes(devices: int) -> int:
    """Bytes of the notes that a device receives before rows are sent."""
    return (devices - 1) * NOTE_BYTES


def chunk_rows(batch: int, devices: int) -> int:
    """Anchors per chunk of the chunked engine on a GPU; a tensor without storage asks it."""
    anchors, candidates = (
        torch.empty(rows, 1, device="meta") for rows in (rows_of(batch) // devices, rows_of(batch))
    )
    asked = ContrastiveBatch(anchors, anchors, candidates, CandidateRule())
    return min(rows_of(batch) // devices, default_chunk_size(asked))


def chunk_bytes(batch: int, devices: int) -> int:
    """Bytes of one chunk of logits."""
    return chunk_rows(batch, devices) * rows_of(batch) * FLOAT


def histogram_bytes(batch: int, devices: int, bins: int) -> int:
    """Bytes of the fused engine's histograms, at their peak."""
    return rows_of(batch) // devices * 8 * bins


def embedding_bytes(batch: int, dim: int) -> int:
    """Bytes of the gathered rows and of their gradient."""
    return 2 * rows_of(batch) * dim * FLOAT


def operations_per_logit(engine: str, loss: str, dim: int) -> int:
    """Floating-point operations of the products."""
    return PRODUCTS[engine, loss] * 2 * dim


def bytes_per_logit(engine: str, loss: str) -> int:
    """Bytes through a GPU's memory per logit; the fused engine keeps its tiles on the chip.

    The product writes logits, exponentials are taken in place, and two products read them. The
    Bayesian loss sorts values with their columns, then reads columns, writes weights and adds them.
    """
    if engine == "fused":
        return 0
    plain = FLOAT + 2 * FLOAT + 2 * FLOAT
    if loss == "InfoNCE":
        return plain
    sort = SORT_PASSES * 2 * (FLOAT + POSITION)
    return plain + sort + POSITION + FLOAT + 3 * FLOAT


def seconds_per_logit(engine: str, loss: str, dim: int, rate: float, bandwidth: float) -> float:
    """Time of a logit on a device, products and memory one after the other."""
    moving = bytes_per_logit(engine, loss) / bandwidth
    return operations_per_logit(engine, loss, dim) / rate + moving


def break_even_dim(loss: str, rate: float, bandwidth: float) -> float:
    """Coordinates below which the fused engine is faster, both computing at the same rate."""
    further = 2 * (PRODUCTS["fused", loss] - PRODUCTS["chunked", loss])
    return bytes_per_logit("chunked", loss) / bandwidth * rate / further


def loss_share(batch: int, dim: int, encoder_operations: float) -> float:
    """Operations of the loss over those of the encoder; the number of devices cancels."""
    return operations_per_logit("chunked", "InfoNCE", dim) * rows_of(batch) / encoder_operations


def encoder_operations(make: Callable[[], nn.Module], size: int) -> int:
    """Operations of one view, forward and backward, counted on tensors without storage."""
    with torch.device("meta"):
        encoder, view = make(), torch.empty(2, 3, size, size)
        counter = FlopCounterMode(display=False)
        with counter:
            encoder(view).sum().backward()
    return counter.get_total_flops() // 2


def saved_bytes_per_logit(loss: nn.Module, anchors: int, candidates: int, dim: int) -> float:
    """Bytes per logit of all that autograd keeps for the backward pass, each storage once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    rows = [torch.randn(n, dim, requires_grad=True) for n in (anchors, anchors, candidates)]
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss.sampled(*rows)
    size = sum(kept.values()) / (anchors * candidates)
    value.backward()
    return size


def calibration(candidates: int, dim: int, logits: int, rounds: int) -> dict[str, object]:
    """Nanoseconds per logit on one CPU core, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    anchors = max(2, logits // candidates)
    rows = [torch.randn(n, dim, generator=generator) for n in (anchors, anchors, candidates)]
    wanted = [one.requires_grad_() for one in rows]
    weights = torch.randn(anchors, candidates, generator=generator)

    def products() -> None:
        with torch.no_grad():
            (rows[0] @ rows[2].T, weights @ rows[2], weights.T @ rows[0])

    def step(loss: bayescl.ContrastiveLoss) -> None:
        for one in wanted:
            one.grad = None
        loss.sampled(*wanted).backward()

    bayesian = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.9)
    methods = {
        "products": products,
        "sort": partial(torch.sort, weights),
        "info_nce": partial(step, bayescl.InfoNCELoss()),
        "bayesian": partial(step, bayesian),
    }
    measured = time_side_by_side(methods, rounds=rounds, warmup=1)
    count = anchors * candidates
    found = {f"{name}_ns": 1e9 * one.median / count for name, one in measured.items()}
    return {"candidates": candidates, "comparisons": math.log2(candidates), **found}


def resnet(name: str, size: int) -> nn.Module:
    """A network of torchvision without its classifier, on no device."""
    from bayescl_lab.images.encoders import TorchvisionEncoder

    return TorchvisionEncoder(name, channels=3, image_size=size)


def main() -> None:
    """Evaluate, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--batches", type=int, nargs="+", default=[2**12, 2**16, 2**20])
    parser.add_argument("--links", type=float, nargs="+", default=[25, 50, 400], help="GB/s")
    parser.add_argument("--rate", type=float, default=60, help="float32 TFLOP/s of a device")
    parser.add_argument("--half-rate", type=float, default=400, help="bfloat16 TFLOP/s")
    parser.add_argument("--bandwidth", type=float, default=3, help="TB/s of a device's memory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--logits", type=int, default=2**22, help="of each measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dim, rate, bandwidth = arguments.dim, arguments.rate * 1e12, arguments.bandwidth * 1e12
    bins = bayescl.BayesianContrastiveLoss().bins

    dense = {
        name: saved_bytes_per_logit(loss, 128, 1024, dim)
        for name, loss in (
            ("InfoNCE", bayescl.InfoNCELoss(engine="dense")),
            ("Bayesian", bayescl.BayesianContrastiveLoss(alpha=0.9, engine="dense")),
        )
    }
    precisions = [(*key, "float32", rate) for key in PRODUCTS]
    precisions += [("fused", loss, "bfloat16", arguments.half_rate * 1e12) for loss in dense]
    engines = [
        {
            "engine": engine,
            "loss": loss,
            "precision": precision,
            "operations": operations_per_logit(engine, loss, dim),
            "bytes": bytes_per_logit(engine, loss),
            "picoseconds": 1e12 * seconds_per_logit(engine, loss, dim, its_rate, bandwidth),
        }
        for engine, loss, precision, its_rate in precisions
    ]
    communication, memory, steps = [], [], []
    for batch, devices in product(arguments.batches, arguments.devices):
        where = {"batch": batch, "devices": devices, "items_per_device": batch // devices}
        count = logits_per_device(batch, devices)
        sent = 2 * gathered_bytes(batch, devices, dim)
        links = {f"ms_{link:g}": sent / (link * 1e9) * 1e3 for link in arguments.links}
        notes = {"mib": sent / 2**20, "note_kib": note_bytes(devices) / 2**10}
        communication.append(where | notes | links)
        held = {
            "rows_mib": embedding_bytes(batch, dim) / 2**20,
            "logits": count,
            "dense_gib": dense["Bayesian"] * count / 2**30,
            "chunk_rows": chunk_rows(batch, devices),
            "chunk_mib": chunk_bytes(batch, devices) / 2**20,
            "histogram_mib": histogram_bytes(batch, devices, bins) / 2**20,
        }
        memory.append(where | held)
        times = {
            f"{row['engine']}_{row['loss']}_{row['precision']}_ms": row["picoseconds"] * count / 1e9
            for row in engines
        }
        steps.append(where | {"logits": count} | links | times)
    work = []
    for name, size in (("resnet18", 32), ("resnet50", 224)):
        operations = encoder_operations(partial(resnet, name, size), size)
        shares = {
            f"share_{batch}": loss_share(batch, dim, operations) for batch in arguments.batches
        }
        encoder = f"{name.replace('resnet', 'ResNet-')}, {size} px"
        work.append({"encoder": encoder, "gigaoperations": operations / 1e9, **shares})
    tables = {
        "communication": communication,
        "memory": memory,
        "engines": engines,
        "steps": steps,
        "work": work,
        "calibration": [
            calibration(candidates, dim, arguments.logits, arguments.rounds)
            for candidates in (2**10, 2**13, 2**16)
        ],
    }
    console = Console()
    for title, records in tables.items():
        table = Table(*records[0], title=title)
        for record in records:
            table.add_row(
                *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in record.values())
            )
        console.print(table)
    command = shlex.join(["python", "benchmarks/scale_model.py", *sys.argv[1:]])
    body = {
        "assumptions": {
            "dim": dim,
            "float32_tflops": arguments.rate,
            "bfloat16_tflops": arguments.half_rate,
            "memory_tb_per_second": arguments.bandwidth,
            "sort_passes": SORT_PASSES,
            "bins": bins,
        },
        "dense_saved_bytes_per_logit": dense,
        "break_even_dim": {loss: break_even_dim(loss, rate, bandwidth) for loss in dense},
        **tables,
    }
    console.print(f"wrote {write_result('scale-model', command, body)}")


if __name__ == "__main__":
    main()

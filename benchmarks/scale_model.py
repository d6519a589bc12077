"""The cost of a loss over all devices at large scale: a formula, calibrated on one CPU core.

    python benchmarks/scale_model.py

Every figure comes from a formula in this file; nothing here runs on several devices. Two things are
measured: CPU seconds per logit on one core, and the bytes per logit that the dense engine keeps for
its backward pass. PyTorch counts the encoders' operations on tensors without storage. The rates of
a device are assumptions; options change them.

The layout is two views of a batch with ``gather=True``: B items per step on W devices are 2 B rows.
Each device has 2 B / W of them as anchors and all 2 B as candidates. With latent classes, every
device remembers all items and fits the same classes to them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from harness import options, publish, time_side_by_side, write_result
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

import bayescl
from bayescl.distributed import NOTE_BYTES
from bayescl.engine import CandidateRule, ContrastiveBatch
from bayescl.engine.chunked import default_chunk_size
from bayescl.losses.class_fits import is_hopeless, memory_for, mixture_sizes

DEVICES, BATCHES, LINKS = (8, 64, 256, 1024), (2**12, 2**16, 2**20), (25, 50, 400)  # GB/s
LATENT_BATCH, LATENT_DEVICES = 2**16, 64
FLOAT = 4
"""Bytes of a float32, in which rows are gathered."""

LABEL = 8
"""Bytes of a label, which is gathered with every item that latent classes remember."""

POSITION = 8
"""Bytes of the column that a sort on a GPU moves with each value."""

SORT_PASSES = 4
"""Passes of a radix sort over float32 values, a byte at a time."""

FIT_PRODUCTS = 2**27
"""Items x components x coordinates that a fit of latent classes may take."""

ALIGNED_ROWS, COMPARED_ROWS = 1024, 256
"""The latest items, on which a fit compares its mixtures, and items with one another."""

PRODUCTS = {
    ("chunked", "InfoNCE"): 3,
    ("chunked", "Bayesian"): 3,
    ("fused", "InfoNCE"): 5,
    ("fused", "Bayesian"): 7,
}
"""Products of embeddings per logit: logits once and two gradients; the fused engine computes its
logits again in every kernel: three forward (one without weights) and two backward."""


def scale(batch: int, devices: int, dim: int, bins: int = 256) -> dict[str, int]:
    """What a device computes, receives and holds in a step of ``batch`` items of all devices.

    That is ``logits`` of its anchors with all candidates; bytes that it receives in the all-gather,
    and sends in the reduce-scatter of a ring (``gathered``), and of all others' ``notes``; bytes of
    the rows and their gradient (``held``); anchors per chunk on a GPU and bytes of a chunk of
    logits; and bytes of the fused engine's histograms at their peak.
    """
    rows = 2 * batch
    anchors = rows // devices
    # The chunked engine is asked on tensors without storage.
    own, everyone = (torch.empty(count, 1, device="meta") for count in (anchors, rows))
    asked = ContrastiveBatch(own, own, everyone, CandidateRule())
    chunk_rows = min(anchors, default_chunk_size(asked))
    return {
        "logits": anchors * rows,
        "gathered": (rows - anchors) * dim * FLOAT,
        "notes": (devices - 1) * NOTE_BYTES,
        "held": 2 * rows * dim * FLOAT,
        "chunk_rows": chunk_rows,
        "chunk": chunk_rows * rows * FLOAT,
        "histograms": anchors * 8 * bins,
    }


def latent_scale(
    classes: int, batch: int, devices: int, dim: int, memory: int | None = None
) -> dict[str, Any]:
    """What latent classes add on each device, if the loss is told their number.

    That is bytes received: of the ``items`` to remember in every step, of what both ``views`` say
    of them in every fourth, of the factors of the ``posterior`` in every step in which something is
    trusted, and of the ``fit`` of the first process. Bytes ``kept`` of items and fit. Items and
    operations of the products of a fit, and the steps between two fits. The loss remembers
    ``memory`` items, by default its own choice.
    """
    prior, others = 1 / classes, batch - batch // devices
    held = memory_for(prior) if memory is None else memory
    sizes = () if is_hopeless(prior, held) else mixture_sizes(prior, held)
    count, squares, largest = sum(sizes), sum(size**2 for size in sizes), max(sizes, default=0)
    # Center, metric, directions, weights and moves; two numbers of each mixture, and two of all.
    numbers = dim + dim**2 + count * (dim + 1) + squares + 2 * len(sizes) + 2 if sizes else 0
    items = min(held, max(2 * largest, FIT_PRODUCTS // (count * dim))) if sizes else 0
    latest, compared = min(items, ALIGNED_ROWS), min(items, COMPARED_ROWS)
    products = items * dim * (6 * dim + 17 * count + largest * len(sizes))
    products += (items + latest) * squares + latest * count**2 + count * dim**2
    products += sum(size**3 for size in sizes) + compared**2 * (dim + count)
    return {
        "classes": classes,
        "components": count,
        "memory": held,
        "items": others * (2 * dim * FLOAT + LABEL),
        "views": others * 2 * count * FLOAT,
        "posterior": 2 * others * count * FLOAT,
        "fit": numbers * FLOAT,
        "kept": (held * 2 * dim + numbers + squares) * FLOAT,  # moves of two steps, too
        "fitted_items": items,
        "fit_operations": 2 * products,
        "steps_between_fits": math.ceil(2 * held / batch) if sizes else "never",
        "operations_per_logit": PRODUCTS["chunked", "InfoNCE"] * 2 * dim + 2 * count,
    }


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
    return operations_per_logit("chunked", "InfoNCE", dim) * 2 * batch / encoder_operations


def encoder_operations(name: str, size: int) -> int:
    """Operations of a network of torchvision on one view, forward and backward."""
    from bayescl_lab.images.encoders import ResNetEncoder

    with torch.device("meta"):
        encoder = ResNetEncoder(name, channels=3, image_size=size)
        view = torch.empty(2, 3, size, size)
        with FlopCounterMode(display=False) as counter:
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


def calibration(candidates: int, dim: int) -> dict[str, object]:
    """CPU nanoseconds per logit on one core, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    anchors = max(2, 2**22 // candidates)
    rows = [torch.randn(n, dim, generator=generator) for n in (anchors, anchors, candidates)]
    leaves = [part.requires_grad_() for part in rows]
    weights = torch.randn(anchors, candidates, generator=generator)

    @torch.no_grad()
    def products() -> None:
        (rows[0] @ rows[2].T, weights @ rows[2], weights.T @ rows[0])

    def step(loss: bayescl.ContrastiveLoss) -> None:
        torch.autograd.grad(loss.sampled(*leaves), leaves)

    methods: dict[str, Callable[[], object]] = {
        "products": products,
        "sort": partial(torch.sort, weights),
        "info_nce": partial(step, bayescl.InfoNCELoss()),
        "bayesian": partial(step, bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.9)),
    }
    measured = time_side_by_side(methods, rounds=5, warmup=1, clock=time.process_time)
    nanoseconds = 1e9 / (anchors * candidates)
    times = {f"{name}_ns": nanoseconds * times.median for name, times in measured.items()}
    return {"candidates": candidates, "comparisons": math.log2(candidates), **times}


def latent_rows(dim: int) -> list[dict[str, Any]]:
    """What latent classes add, for numbers of classes and items that the loss remembers."""
    rows = []
    for classes, held in product((10, 100, 800, 10_000), (None, 2**20)):  # by itself; a million
        row = latent_scale(classes, LATENT_BATCH, LATENT_DEVICES, dim, held)
        parts = ("items", "views", "posterior", "fit", "kept")
        sizes = {f"{part}_mib": row[part] / 2**20 for part in parts}
        rows.append({**row, **sizes, "fit_gigaoperations": row["fit_operations"] / 1e9})
    return rows


def tables(dim: int, rate: float, half_rate: float, bandwidth: float) -> dict[str, Any]:
    """Every table of the page but that of latent classes, and the figures between them."""
    bins = bayescl.BayesianContrastiveLoss().bins
    losses = {
        "InfoNCE": bayescl.InfoNCELoss(engine="reference"),
        "Bayesian": bayescl.BayesianContrastiveLoss(alpha=0.9, engine="reference"),
    }
    dense = {name: saved_bytes_per_logit(loss, 128, 1024, dim) for name, loss in losses.items()}
    precisions = [(*key, "float32", rate) for key in PRODUCTS]
    precisions += [("fused", loss, "bfloat16", half_rate) for loss in dense]
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
    for batch, devices in product(BATCHES, DEVICES):
        where = {"batch": batch, "devices": devices, "items_per_device": batch // devices}
        sizes = scale(batch, devices, dim, bins)
        logits, sent = sizes["logits"], 2 * sizes["gathered"]
        links = {f"ms_{link:g}": sent / (link * 1e9) * 1e3 for link in LINKS}
        notes = {"mib": sent / 2**20, "note_kib": sizes["notes"] / 2**10}
        communication.append(where | notes | links)
        held = {
            "rows_mib": sizes["held"] / 2**20,
            "logits": logits,
            "dense_gib": dense["Bayesian"] * logits / 2**30,
            "chunk_rows": sizes["chunk_rows"],
            "chunk_mib": sizes["chunk"] / 2**20,
            "histogram_mib": sizes["histograms"] / 2**20,
        }
        memory.append(where | held)
        times = {}
        for row in engines:
            label = f"{row['engine']}_{row['loss']}_{row['precision']}_ms"
            times[label] = row["picoseconds"] * logits / 1e9
        steps.append(where | {"logits": logits} | links | times)
    work = []
    for name, side in (("resnet18", 32), ("resnet50", 224)):
        operations = encoder_operations(name, side)
        shares = {f"share_{batch}": loss_share(batch, dim, operations) for batch in BATCHES}
        encoder = f"{name.replace('resnet', 'ResNet-')}, {side} px"
        work.append({"encoder": encoder, "gigaoperations": operations / 1e9, **shares})
    return {
        "dense_saved_bytes_per_logit": dense,
        "break_even_dim": {loss: break_even_dim(loss, rate, bandwidth) for loss in dense},
        "communication": communication,
        "memory": memory,
        "engines": engines,
        "steps": steps,
        "work": work,
        "calibration": [calibration(candidates, dim) for candidates in (2**10, 2**13, 2**16)],
    }


def main() -> None:
    """Evaluate, measure and write.

    Rates of a device: ``rate`` and ``half-rate`` are TFLOP/s in float32 and bfloat16, ``bandwidth``
    TB/s of its memory. With ``latent``, only the formulas of latent classes.
    """
    chosen = options(__doc__, "latent", dim=128, rate=60.0, half_rate=400.0, bandwidth=3.0)
    about = {"batch": LATENT_BATCH, "devices": LATENT_DEVICES, "dim": chosen.dim}
    publish("scale-latent", latent_rows(chosen.dim), **about)
    if chosen.latent:
        return
    torch.set_num_threads(1)
    rates = (chosen.rate * 1e12, chosen.half_rate * 1e12, chosen.bandwidth * 1e12)
    assumptions = {
        "dim": chosen.dim,
        "float32_tflops": chosen.rate,
        "bfloat16_tflops": chosen.half_rate,
        "memory_tb_per_second": chosen.bandwidth,
        "sort_passes": SORT_PASSES,
        "bins": bayescl.BayesianContrastiveLoss().bins,
    }
    print(write_result("scale-model", {"assumptions": assumptions, **tables(chosen.dim, *rates)}))


if __name__ == "__main__":
    main()

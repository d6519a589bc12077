"""Operations of a training step on a GPU, by phase and loss, counted without a GPU.

    python benchmarks/launches.py

Each operation on tensors of a GPU that is not a view launches a kernel or more, and a slow host
takes longer to launch small kernels than the GPU to compute them. Forward passes run on fake CUDA
tensors, which have shapes but no values: whatever reads a value back to the host raises an error.
Backward pass and optimizer, which fake tensors do not support, are counted on the CPU, and
conversions by autocast are not counted. The losses alone, forward and backward, are counted on the
CPU with the branches that a GPU takes. The exit code is 1 if a step reads a value, or copies more
to the GPU than the parameters of its views, or if a loss has more operations than ``MOST``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import gpu
import torch
from contenders import REFERENCE, cross_entropy_info_nce
from harness import options, publish
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bayescl_lab.items.batches import EpochOrder, ItemBatch, StoreBatches
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

BATCH = 16
_NO_KERNEL = ("empty", "new_empty", "_unsafe_view", "_reshape_alias")
SETTINGS = ImageSettings(
    loss=LossSettings("info_nce"),
    encoder="resnet18",
    hidden_dim=512,
    augmentation="simclr",
    batch_size=BATCH,
    precision="bfloat16",
    channels_last=True,
    positive_share=1.0,
)


class Operations(TorchDispatchMode):
    """Count operations that are not views: on the device, on the host, and copies to the device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None):
        """Count an operation and compute it."""
        result = operation(*args, **(kwargs or {}))
        library, _, name = operation._schema.name.partition("::")
        returns = operation._schema.returns
        is_view = bool(returns) and all(
            one.alias_info is not None and not one.alias_info.is_write for one in returns
        )
        if library == "aten" and not is_view and not name.startswith(_NO_KERNEL):
            leaves = tree_leaves((args, kwargs, result))
            places = {it.device.type for it in leaves if isinstance(it, torch.Tensor)}
            kinds = {frozenset({"cpu"}): "host", frozenset({self.device}): "device"}
            if places:
                self.counts[kinds.get(frozenset(places), "copies")] += 1
        return result


def forward_counts(
    settings: ImageSettings, *, known: tuple[str, ...] = ()
) -> dict[str, Mapping[str, int]]:
    """Operations of the forward phases of a step on fake CUDA tensors, by phase.

    Args:
        settings: the settings of the run.
        known: arguments of the loss beside those that it needs: "labels", "domains", "teacher".

    Raises:
        RuntimeError: if a value is read back to the host.
    """
    store = gpu.random_images(3 * BATCH, 32)
    model = gpu.RandomRun(settings, store).model.train()
    values = {"labels": store.labels, "domains": store.labels % 2, "teacher": torch.randn(48, 8)}
    counts: dict[str, Operations] = {}

    def phase(name: str) -> Operations:
        return counts.setdefault(name, Operations("cuda"))

    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model, store = model.to("cuda"), store.to("cuda")
            given = {name: values[name] for name in known}
            epoch = iter(StoreBatches(store, EpochOrder(len(store), BATCH, 0), given))
            with phase("epoch"):
                next(epoch)  # rows of the epoch, and the first batch
            with phase("batch"):
                batch = next(epoch)
            _forward(model, batch, phase)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
    return {name: dict(one.counts) for name, one in counts.items()}


def _forward(model: SimCLR, batch: ItemBatch, phase: Any) -> None:
    """The phases of a step, as :meth:`SimCLR.training_step` goes through them."""
    augmentation: Any = model.augmentation
    with phase("parameters"):
        rows = augmentation.parameter_rows(batch.items, model.view_seeds((1, 2), 1))
    with phase("augmentation"):
        views = augmentation.apply_rows(batch.items, rows)
    with phase("network"):
        view_1, view_2 = model.embed_views(views, None)
    known = dict(batch.known)
    for name in ("groups", "labels"):
        if getattr(model.loss, f"needs_{name}"):
            known[name] = batch.labels
    if model.embeds_items:
        with phase("teacher"):
            (known["teacher"],) = model.embed_views((), batch.items)
    with phase("objective"):
        model.loss(view_1, view_2, **known)


def backward_counts(settings: ImageSettings) -> dict[str, int]:
    """Operations of backward pass and optimizer, counted on the CPU."""
    store = gpu.random_images(3 * BATCH, 32)
    model = gpu.RandomRun(settings, store).model.train()
    batch = next(iter(StoreBatches(store, EpochOrder(len(store), BATCH, 0))))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model.training_step(batch, 0).backward()
    optimizer.step()  # makes its state
    optimizer.zero_grad()
    loss = model.training_step(batch, 1)
    with Operations("cpu") as counted:
        loss.backward()
    with Operations("cpu") as stepped:
        optimizer.step()
    return {"backward": counted.counts["device"], "optimizer": stepped.counts["device"]}


MOST = {"InfoNCE": 29, "InfoNCE, teacher": 48, "Bayesian": 39, "debiased": 42, "hard": 48}
"""Largest number of operations of a loss of two views."""


@contextmanager
def branches_of_a_gpu() -> Iterator[None]:
    """Let the losses take the branches of a GPU on the CPU."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("bayescl.") and hasattr(module, "is_eager_cpu"):
                stack.enter_context(patch.object(module, "is_eager_cpu", lambda _: False))
        yield


def loss_counts() -> list[dict[str, Any]]:
    """Operations of each loss, forward and backward, and of the naive code."""
    views, known = gpu.batch_of(32)
    calls: dict[str, Any] = {REFERENCE: cross_entropy_info_nce}
    for name, (loss, names) in gpu.losses().items():
        given = {key: known[key] for key in names}
        calls[name] = partial(loss, **given)
        if name != "oracle":
            calls[f"{name}, pairs"] = partial(loss.in_batch, **given)
    rows = []
    with branches_of_a_gpu():
        for name, call in calls.items():
            for _ in range(2):  # the first call makes tensors that are kept
                leaves = [view.detach().requires_grad_() for view in views]
                with Operations("cpu") as counted:
                    torch.autograd.grad(call(*leaves), leaves)
            rows.append({"loss": name, "operations": counted.counts["device"]})
    return rows


def main() -> int:
    """Count, and print; 0 if no step waits for the host, 1 if one does."""
    chosen = options(__doc__, "write")
    backward = backward_counts(SETTINGS)
    rows, is_right = [], True
    for loss in LossSettings.classes():
        for share, known in ((1.0, ()), (0.5, ()), (1.0, ("domains",)), (0.5, ("teacher",))):
            settings = replace(SETTINGS, loss=LossSettings(loss), positive_share=share)
            row: dict[str, Any] = {"loss": loss, "positive_share": share, "known": ", ".join(known)}
            try:
                counts = forward_counts(settings, known=known)
            except RuntimeError as error:
                rows.append(row | {"failed": str(error).partition("\n")[0]})
                is_right = False
                continue
            device = {name: one.get("device", 0) for name, one in counts.items() if name != "epoch"}
            copies = sum(one.get("copies", 0) for name, one in counts.items() if name != "epoch")
            total = sum(device.values()) + sum(backward.values())
            rows.append({**row, **device, **backward, "total": total, "copies": copies})
            is_right &= copies <= 1
    publish("launches", rows, write=chosen.write)
    losses = loss_counts()
    publish("loss-launches", losses, write=chosen.write)
    is_right &= all(row["operations"] <= MOST.get(row["loss"], 1000) for row in losses)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())

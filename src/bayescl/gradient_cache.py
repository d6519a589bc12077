"""Gradient caching: large batches in the memory of small ones."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bayescl._types import Float, Tensor

Loss = Callable[..., Tensor]
"""Function of one tensor of embeddings per view and further arguments that returns a scalar."""


def cached_backward(
    loss: Loss,
    encoder: nn.Module | Sequence[nn.Module],
    *views: Sequence[Any],
    teacher: Float[Tensor, "items teacher_dim"] | Sequence[Any] | None = None,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
    **whole: Any,
) -> Float[Tensor, ""]:
    r"""Compute the loss and gradients of a batch with the graph of only one chunk in memory.

    The first pass encodes all chunks without a graph, and the loss gives the gradient of every
    embedding. The second pass encodes each chunk again and backpropagates these gradients into the
    parameters.

    Both passes use the same random numbers, so dropout masks agree. Buffers are restored between
    the passes, so only the second pass updates running statistics of BatchNorm. Randomness outside
    PyTorch's generators and state outside buffers are not restored. BatchNorm in training mode
    normalizes each chunk separately. Embeddings then equal
    ``torch.cat([encoder(chunk) for chunk in chunks])``, not ``encoder(batch)``.

    Like ``backward``, this adds to the gradients of the parameters, including a learnable
    temperature. It works inside ``torch.autocast``. Under ``DistributedDataParallel``, gradients
    are exchanged with the last chunk only. Processes may have different numbers of chunks, and the
    loss may gather.

    Args:
        loss: Function called as ``loss(embeddings_1, embeddings_2, ...)`` with all embeddings of
            each view. It returns a scalar. Usually a loss of this package, or its ``in_batch``.
        encoder: One encoder for all views, or a sequence with one encoder per view. It returns one
            embedding per row, and must not overwrite the tensors of its input.
        *views: Chunks of each view, one or more. A chunk is the encoder's input: a tensor, a tuple
            of positional arguments, or a mapping of named arguments.
        teacher: Embeddings for the loss's ``teacher``, or chunks of unaugmented items. The first
            encoder encodes the chunks once before the views, without gradient and in its current
            mode. Default: no teacher.
        backward: Function that differentiates the scalar. With a gradient scaler:
            ``lambda value: scaler.scale(value).backward()``. Default: ``value.backward()``.
        **whole: Further arguments of the loss for all rows at once, such as ``groups=`` or
            ``labels=`` (-1 if unknown).

    Returns:
        The loss, without a graph.

    Raises:
        ValueError: if a view has no chunk, encoders and views differ in number, or the loss
            does not return a scalar.
        TypeError: if an encoder is not a module.
        RuntimeError: if an encoder overwrites a tensor of its input.

    Example:
        >>> encoder = torch.nn.Linear(8, 4)
        >>> view_1, view_2 = torch.randn(2, 6, 8)
        >>> loss = lambda first, second: (first * second).sum(1).square().mean()
        >>> value = cached_backward(loss, encoder, view_1.split(2), view_2.split(2))
        >>> torch.allclose(value, loss(encoder(view_1), encoder(view_2)))
        True
        >>> encoder.weight.grad.shape
        torch.Size([4, 8])

    Reference:
        Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
        RepL4NLP 2021.
    """
    encoders: list[Any] = [encoder] * len(views)
    if isinstance(encoder, Sequence | nn.ModuleList):
        encoders = list(encoder)
    for one in encoders:
        if not isinstance(one, nn.Module):
            raise TypeError(
                f"encoder must be a torch.nn.Module or a sequence of them, got {type(one).__name__}"
            )
    if len(encoders) != len(views) or not views:
        raise ValueError(
            "views must have one entry per encoder, at least one, "
            f"got {len(views)} views and {len(encoders)} encoders"
        )
    for number, chunks in enumerate(views):
        _check_chunks(f"view {number}", chunks)
    if teacher is not None and not isinstance(teacher, Tensor):
        _check_chunks("teacher", teacher)
        with torch.no_grad():
            parts = [
                _encode(encoders[0], chunk, f"teacher, chunk {number}")
                for number, chunk in enumerate(teacher)
            ]
        teacher = torch.cat(parts)
    if teacher is not None:
        whole["teacher"] = teacher
    # Both passes encode the views in the same order: buffers and random numbers depend on it.
    steps = [
        (view, chunk, f"view {view}, chunk {number}")
        for view, chunks in enumerate(views)
        for number, chunk in enumerate(chunks)
    ]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else range(0)

    states: list[list[Tensor]] = []  # random states of the CPU and of GPUs
    embeddings: list[list[Tensor]] = [[] for _ in views]
    with _buffers_put_back(encoders), torch.no_grad():
        for view, chunk, name in steps:
            states.append(
                [torch.get_rng_state(), *(torch.cuda.get_rng_state(gpu) for gpu in devices)]
            )
            embeddings[view].append(_encode(encoders[view], chunk, name))
    # Older versions of PyTorch would reuse autocast's casts of the parameters, without gradient.
    torch.clear_autocast_cache()

    wholes = [torch.cat(parts).requires_grad_() for parts in embeddings]
    with torch.enable_grad():
        value = loss(*wholes, **whole)
        if value.numel() != 1:
            raise ValueError(f"loss must return a scalar, got shape {list(value.shape)}")
        backward(value)
    gradients = [torch.zeros_like(rows) if rows.grad is None else rows.grad for rows in wholes]
    sizes = [[len(part) for part in parts] for parts in embeddings]
    pieces = itertools.chain(*map(torch.split, gradients, sizes))
    del embeddings, wholes

    last = {id(encoders[view]): index for index, (view, *_) in enumerate(steps)}
    with torch.random.fork_rng(devices), torch.enable_grad():
        for index, ((view, chunk, name), state, piece) in enumerate(
            zip(steps, states, pieces, strict=True)
        ):
            current = encoders[view]
            # DistributedDataParallel exchanges gradients with the last chunk only.
            is_last = index == last[id(current)]
            with nullcontext() if is_last else getattr(current, "no_sync", nullcontext)():
                torch.set_rng_state(state[0])
                for gpu, gpu_state in zip(devices, state[1:], strict=True):
                    torch.cuda.set_rng_state(gpu_state, gpu)
                embedding = _encode(current, chunk, name)
                if embedding.requires_grad:
                    torch.autograd.backward(embedding, piece)
            torch.clear_autocast_cache()
    return value.detach()


def _check_chunks(name: str, chunks: Any) -> None:
    """Check that ``chunks`` is a list of at least one chunk."""
    if isinstance(chunks, Tensor | Mapping):
        raise TypeError(
            f"{name} must be a list of chunks, got a whole batch: split it, as in batch.split(256)"
        )
    if len(chunks) == 0:
        raise ValueError(f"{name} must contain at least one chunk, got none")


def _encode(encoder: nn.Module, chunk: Any, name: str) -> Tensor:
    """Call an encoder on a copy of one chunk, and check that it does not overwrite the tensors."""
    held: list[tuple[str, Tensor, int]] = []
    chunk = _copied(chunk, name, held)
    if isinstance(chunk, Mapping):
        embedding = encoder(**chunk)
    else:
        embedding = encoder(*chunk) if isinstance(chunk, tuple | list) else encoder(chunk)
    if not isinstance(embedding, Tensor):
        raise TypeError(f"encoder must return a tensor, got {type(embedding).__name__}")
    for location, tensor, version in held:
        if tensor._version != version:
            raise RuntimeError(
                f"encoder must not overwrite its input, but it changed {location}: chunks are "
                "encoded twice, and the second pass would see other values; use operations that "
                "return a new tensor, such as ReLU(inplace=False)"
            )
    return embedding


def _copied(part: Any, name: str, held: list[tuple[str, Tensor, int]]) -> Any:
    """Copy containers but not tensors; add the name and version of each tensor to ``held``."""
    if isinstance(part, Tensor):
        if not part.is_inference():  # inference tensors have no version counter
            held.append((name, part, part._version))
        return part
    if isinstance(part, tuple):
        parts = [_copied(one, f"{name}[{index}]", held) for index, one in enumerate(part)]
        return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
    try:
        same = copy.copy(part)
    except TypeError:
        return part
    if isinstance(part, MutableMapping):
        for key, one in part.items():
            same[key] = _copied(one, f"{name}[{key!r}]", held)
    elif isinstance(part, list):
        same[:] = [_copied(one, f"{name}[{index}]", held) for index, one in enumerate(part)]
    elif is_dataclass(part):
        for key, one in vars(part).items():
            object.__setattr__(same, key, _copied(one, f"{name}.{key}", held))
    return same


@contextmanager
def _buffers_put_back(encoders: Sequence[nn.Module]) -> Iterator[None]:
    """Restore the encoders' buffers at the end."""
    saved: dict[nn.Module, list[tuple[nn.Module, str, Tensor, Tensor]]] = {}

    def save(root: nn.Module, _: Any) -> None:
        if root not in saved:
            saved[root] = [
                (module, name, buffer, buffer.clone())
                for module in root.modules()
                for name, buffer in module.named_buffers(recurse=False)
            ]

    # Buffers are saved just before an encoder first runs. By then DistributedDataParallel has
    # copied them from rank 0, which it does not do again in the second pass.
    roots = [
        encoder.module if isinstance(encoder, DistributedDataParallel) else encoder
        for encoder in encoders
    ]
    hooks = [root.register_forward_pre_hook(save) for root in roots]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for module, name, buffer, value in itertools.chain(*reversed(saved.values())):
                buffer.copy_(value)
                setattr(module, name, buffer)  # the module may have replaced the tensor

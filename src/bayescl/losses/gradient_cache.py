"""A training step with a batch that is too large for the encoder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bayescl.axes import Float, Tensor

Loss = Callable[..., Tensor]
"""Called with one tensor of embeddings per view, and further arguments; returns a scalar."""


def cached_backward(
    loss: Loss,
    encoder: nn.Module | Sequence[nn.Module],
    *views: Sequence[Any],
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
    **whole: Any,
) -> Float[Tensor, ""]:
    r"""Compute a loss over many chunks and its gradients, holding one chunk's graph at a time.

    The first pass encodes without a graph, the loss gives the gradient of every embedding, and the
    second pass encodes each chunk again and backpropagates its gradient into the parameters.

    The second pass uses the random numbers of the first, so dropout masks agree. Buffers are
    restored between the passes: running statistics of BatchNorm move once per step. Randomness
    outside PyTorch's generators and state outside buffers are not repeated. BatchNorm in training
    mode normalises each chunk by itself, so its step equals that of
    ``torch.cat([encoder(chunk) for chunk in chunks])``, not that of the unsplit batch.

    Like ``backward``, it adds to the gradients of the parameters, including a learnable
    temperature. It works inside ``torch.autocast``. Under ``DistributedDataParallel``, gradients
    are exchanged with the last chunk only; numbers of chunks may differ, and the loss may gather.

    Args:
        loss: called as ``loss(embeddings_1, embeddings_2, ...)`` with all embeddings of each view;
            returns a scalar. A loss of this package, or its ``loss.in_batch``.
        encoder: one encoder for all views, or one per view. It returns one embedding per row.
        *views: the chunks of each view, one or more. A chunk is the encoder's input: a tensor, or
            a tuple of positional or a mapping of named arguments.
        backward: how to differentiate the scalar; default: ``value.backward()``. With a scaler:
            ``lambda value: scaler.scale(value).backward()``.
        **whole: further arguments of the loss, for all rows at once, such as ``groups=`` or
            ``labels=`` (-1 for an item without).

    Returns:
        The loss, without a graph.

    Raises:
        ValueError: if a view has no chunk, encoders and views differ in number, or the loss
            does not return a scalar.

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
    encoders = [encoder] * len(views) if isinstance(encoder, nn.Module) else list(encoder)
    if len(encoders) != len(views) or not views:
        raise ValueError(f"views must be one per encoder, got {len(views)} for {len(encoders)}")
    for number, chunks in enumerate(views):
        if isinstance(chunks, Tensor | Mapping):
            raise TypeError(
                f"views must be lists of chunks, got a whole batch as view {number}: split it, as "
                "in batch.split(256)"
            )
        if len(chunks) == 0:
            raise ValueError(f"views must hold at least one chunk, got none in view {number}")
    # Views one after the other, in both passes: buffers and random numbers follow this order.
    steps = [(view, chunk) for view, chunks in enumerate(views) for chunk in chunks]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else range(0)

    states: list[list[Tensor]] = []  # of the generators on the CPU and on GPUs
    embeddings: list[list[Tensor]] = [[] for _ in views]
    with _buffers_put_back(encoders), torch.no_grad():
        for view, chunk in steps:
            states.append(
                [torch.get_rng_state(), *(torch.cuda.get_rng_state(gpu) for gpu in devices)]
            )
            embeddings[view].append(_encode(encoders[view], chunk))
    # Older versions of PyTorch keep autocast's casts of parameters from here, without gradient.
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

    last = {id(encoders[view]): index for index, (view, _) in enumerate(steps)}
    with torch.random.fork_rng(devices), torch.enable_grad():
        for index, ((view, chunk), state, piece) in enumerate(
            zip(steps, states, pieces, strict=True)
        ):
            current = encoders[view]
            # Gradients are exchanged with the last chunk, if the encoder exchanges any.
            is_last = index == last[id(current)]
            with nullcontext() if is_last else getattr(current, "no_sync", nullcontext)():
                torch.set_rng_state(state[0])
                for gpu, gpu_state in zip(devices, state[1:], strict=True):
                    torch.cuda.set_rng_state(gpu_state, gpu)
                embedding = _encode(current, chunk)
                if embedding.requires_grad:
                    torch.autograd.backward(embedding, piece)
            torch.clear_autocast_cache()
    return value.detach()


def _encode(encoder: nn.Module, chunk: Any) -> Tensor:
    """Call an encoder on one chunk."""
    if isinstance(chunk, Mapping):
        embedding = encoder(**chunk)
    elif isinstance(chunk, (tuple, list)):
        embedding = encoder(*chunk)
    else:
        embedding = encoder(chunk)
    if not isinstance(embedding, Tensor):
        raise TypeError(f"encoder must return a tensor, got {type(embedding).__name__}")
    return embedding


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

    # Just before an encoder first runs: by then DistributedDataParallel has brought buffers in
    # line with rank 0, which it does not repeat in the second pass.
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
                setattr(module, name, buffer)  # a module may also have replaced the tensor

"""Similarities and logits of embeddings."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from bayescl._checks import is_eager_cpu, is_traced
from bayescl._ops.log_space import at_least_float32
from bayescl._types import Float, Tensor

_ORDINARY = (1e-10, 1e10)
"""Range of lengths for which the squares neither underflow nor overflow in float32."""


def unit_vectors(embeddings: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Scale every embedding to length 1, so that inner products are cosine similarities.

    Tiny and huge embeddings neither underflow nor overflow. An embedding stays unchanged and
    gets a finite gradient if all its coordinates are zero or subnormal. A row with NaN or infinity
    becomes NaN, with gradient 0.

    Args:
        embeddings: Rows of any finite length. Differentiated.

    Returns:
        Rows of length 1, or 0 for a zero row, in the same dtype.

    Example:
        >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if embeddings.numel() == 0:
        return embeddings
    length: Tensor | None = None
    if is_eager_cpu(embeddings):
        length = torch.linalg.vector_norm(embeddings.detach(), dim=-1, keepdim=True)
        shortest, longest = length.aminmax()
        is_ordinary = shortest.item() > _ORDINARY[0] and longest.item() < _ORDINARY[1]
        if not is_ordinary or length.dtype.itemsize < 4:  # not ordinary with NaN
            return _robust_unit_vectors(embeddings)
    elif is_traced() or embeddings.dtype == torch.float64:
        return _robust_unit_vectors(embeddings)
    unit: Tensor = _UnitVectors.apply(embeddings, length)
    return unit


def _robust_unit_vectors(embeddings: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Compute :func:`unit_vectors` of any rows, without branches on the values."""
    largest = embeddings.detach().abs().amax(dim=-1, keepdim=True)
    # A row that is not finite becomes NaN without gradient. A product with NaN would give a NaN
    # gradient even where the row is masked.
    finite = largest.isfinite()
    embeddings = torch.where(finite, embeddings, 0.0)
    # Below the smallest normal number, the gradient of the quotient is infinite: treat as zero.
    small = ~finite | (largest < torch.finfo(embeddings.dtype).tiny)
    # The result does not depend on the scale, so the scale needs no gradient.
    scaled = embeddings / torch.where(small, 1.0, largest)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    # The gradient of a product is cheaper than the gradient of a quotient.
    unit = scaled * torch.where(small, 1.0, length).reciprocal()
    return torch.where(finite, unit, torch.nan)


class _UnitVectors(torch.autograd.Function):
    """:func:`unit_vectors` in few operations, each of which launches a kernel on a GPU.

    Unless all are ordinary, lengths are computed in float64, in which squares neither underflow
    nor overflow. With the direction u of a row x and the gradient g by u, the gradient by x is
    (g - u (u . g)) / |x|.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, length: Tensor | None) -> Tensor:
        ctx.is_ordinary = length is not None
        if length is None:
            length = torch.linalg.vector_norm(rows.double(), dim=-1, keepdim=True)
            # Rows without a direction stay as they are, and rows that are not finite become NaN.
            shortest = torch.finfo(rows.dtype).tiny * math.sqrt(rows.shape[-1])
            length = F.threshold(length, shortest, 1.0).nan_to_num_(torch.nan, torch.nan)
        unit = torch.div(rows, length, out=torch.empty_like(rows))
        ctx.save_for_backward(rows, unit, length)
        ctx.save_for_forward(unit, length)
        return unit

    @staticmethod
    def backward(ctx: Any, grad_unit: Tensor) -> tuple[Tensor, None]:
        rows, unit, length = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may follow
            again = _robust_unit_vectors(rows)
            return torch.autograd.grad(again, rows, grad_unit, create_graph=True)[0], None
        grad_rows = _across(grad_unit, unit).div_(length)
        return grad_rows if ctx.is_ordinary else grad_rows.masked_fill_(length.isnan(), 0.0), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _length: None) -> Tensor:
        unit, length = ctx.saved_tensors
        tangent_unit: Tensor = _across(tangent, unit) / length.to(unit.dtype)
        return tangent_unit


def _across(vectors: Tensor, unit: Tensor) -> Tensor:
    """Return the parts of vectors that are orthogonal to vectors of length 1."""
    along = (vectors[..., None, :] @ unit[..., None])[..., 0]  # one operation
    return torch.addcmul(vectors, unit, along, value=-1)


def pair_logits(
    anchors: Float[Tensor, "anchors dim"],
    positives: Float[Tensor, "anchors dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, " anchors"]:
    """Compute the logit of each anchor and its positive.

    Args:
        anchors: Unit vectors for cosine similarities, or any vectors for inner products.
        positives: Positive of each anchor, scaled like ``anchors``.
        temperature: Temperature of the softmax, positive. Differentiated if it is a tensor.

    Returns:
        Inner products divided by the temperature, float32 or better.

    Example:
        >>> pair_logits(torch.eye(2), torch.eye(2), temperature=0.5)
        tensor([2., 2.])
    """
    anchors, positives = at_least_float32(anchors), at_least_float32(positives)
    return torch.einsum("ad,ad->a", anchors, positives) / temperature


def candidate_logits(
    anchors: Float[Tensor, "anchors dim"],
    candidates: Float[Tensor, "*own candidates dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, "anchors candidates"]:
    """Compute the logits of each anchor and its candidates.

    Args:
        anchors: As in :func:`pair_logits`.
        candidates: ``[candidates, dim]`` if all anchors share them, or
            ``[anchors, candidates, dim]`` if each anchor has its own.
        temperature: As in :func:`pair_logits`.

    Returns:
        Inner products divided by the temperature, float32 or better.

    Example:
        >>> candidate_logits(torch.eye(2), torch.tensor([[0.0, 1.0]]), temperature=0.5)
        tensor([[0.],
                [2.]])
    """
    # Dividing the smaller operand by the temperature is cheaper than dividing the logits.
    scaled, candidates = at_least_float32(anchors) / temperature, at_least_float32(candidates)
    if candidates.ndim == 2:
        return scaled @ candidates.T
    return torch.einsum("ad,and->an", scaled, candidates)

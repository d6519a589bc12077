"""From embeddings to logits."""

from __future__ import annotations

import torch

from bayescl._axes import Float, Tensor


def unit_vectors(embeddings: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Scale every embedding to length 1, so that inner products are cosine similarities.

    The length is taken after dividing by the largest coordinate, so neither tiny nor huge
    embeddings under- or overflow. An all-zero embedding has no direction: it stays zero, has
    similarity 0 to everything and receives a finite gradient. So does one whose coordinates are
    all below the smallest normal number.

    Args:
        embeddings: rows of any finite length. Differentiated.

    Returns:
        Rows of length 1 (or 0 where the row was all zero), same dtype.

    Example:
        >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    largest = embeddings.detach().abs().amax(dim=-1, keepdim=True)
    # NaN and infinity are not small numbers: they stay. Below the smallest normal number a quotient
    # has infinite gradient, so such rows count as zero.
    small = largest < torch.finfo(embeddings.dtype).tiny
    # The result does not change with the scale, so the scale may be a constant for the gradient.
    scaled = embeddings / torch.where(small, 1.0, largest)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    # A product has a cheaper gradient than a quotient.
    return scaled * torch.where(small, 1.0, length).reciprocal()


def pair_logits(
    anchors: Float[Tensor, "anchors dim"],
    positives: Float[Tensor, "anchors dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, " anchors"]:
    """Logit of each anchor with the row of ``positives`` at the same place.

    Args:
        anchors: unit vectors for cosine similarities, or any vectors for inner products.
        positives: as ``anchors``.
        temperature: softmax scale, positive. Differentiated where it is a tensor.

    Returns:
        Inner products divided by the temperature.

    Example:
        >>> pair_logits(torch.eye(2), torch.eye(2), temperature=0.5)
        tensor([2., 2.])
    """
    return torch.einsum("ad,ad->a", anchors, positives) / temperature


def candidate_logits(
    anchors: Float[Tensor, "anchors dim"],
    candidates: Float[Tensor, "*own candidates dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, "anchors candidates"]:
    """Logit of each anchor with each of its candidates.

    Args:
        anchors: unit vectors for cosine similarities, or any vectors for inner products.
        candidates: ``[candidates, dim]`` where all anchors share them, or
            ``[anchors, candidates, dim]`` where each has its own.
        temperature: softmax scale, positive. Differentiated where it is a tensor.

    Returns:
        Inner products divided by the temperature.

    Example:
        >>> candidate_logits(torch.eye(2), torch.tensor([[0.0, 1.0]]), temperature=0.5)
        tensor([[0.],
                [2.]])
    """
    # Dividing the smaller operand by the temperature saves a pass over the logits.
    scaled = anchors / temperature
    if candidates.ndim == 2:
        return scaled @ candidates.T
    return torch.einsum("ad,and->an", scaled, candidates)

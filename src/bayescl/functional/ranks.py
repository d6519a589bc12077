"""Where each logit stands among its anchor's unlabeled logits."""

from __future__ import annotations

from typing import Literal

import torch

from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_choice
from bayescl.functional._sorting import sorted_rows

Ranks = Literal["mid", "upper"]
RANKS: tuple[Ranks, ...] = ("mid", "upper")


def empirical_cdf(
    unlabeled: Float[Tensor, "*anchors candidates"],
    *,
    valid: Bool[Tensor, "*anchors candidates"] | None = None,
    ranks: Ranks = "mid",
) -> Float[Tensor, "*anchors candidates"]:
    r"""Empirical CDF of each anchor's unlabeled logits, at these logits.

    With :math:`N` valid candidates in the row, :math:`n_<` of them below a logit and
    :math:`n_=` equal to it (itself included):

    .. math::
        \hat\Phi_{UN} = \frac{n_< + n_=}{N} \;\text{(upper)}, \qquad
        \hat\Phi_{UN} = \frac{n_< + n_= / 2}{N} \;\text{(mid)}.

    The paper's upper rank puts the largest logit at 1 and the smallest at 1/N, which biases
    small rows: the mean importance weight falls below 1. Mid-ranks lie symmetrically and do not.
    Equal logits get equal values either way.

    Args:
        unlabeled: logits, or anything that increases with them. Not differentiated: the result
            is piecewise constant.
        valid: True where a candidate counts; rows may have different numbers of candidates.
        ranks: ``"mid"`` or ``"upper"``.

    Returns:
        Values in (0, 1], float32 or float64. Where ``valid`` is False the value is 1.

    Raises:
        ValueError: if ``ranks`` is neither word.

    Example:
        >>> logits = torch.tensor([[6.0, 4.0, 3.0, 7.0, 5.0]])
        >>> empirical_cdf(logits, ranks="upper")
        tensor([[0.8000, 0.4000, 0.2000, 1.0000, 0.6000]])
        >>> empirical_cdf(logits)
        tensor([[0.7000, 0.3000, 0.1000, 0.9000, 0.5000]])

    Reference:
        Liu et al., ICML 2024, Eq. "puedf", and the example below it.
    """
    check_choice("ranks", ranks, RANKS)
    values = unlabeled.detach().flatten(0, -2) if unlabeled.ndim > 1 else unlabeled.detach()[None]
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    if valid is None:
        count = torch.full((1, 1), values.shape[1], device=values.device)
    else:
        valid = valid.reshape(values.shape)
        values = values.masked_fill(~valid, torch.inf)
        count = valid.sum(dim=1, keepdim=True)
    ordered, columns = sorted_rows(values)
    below, through = _tie_bounds(ordered)
    # A valid logit of +inf ties with the masked ones, which do not count.
    through = through.minimum(count)
    doubled = below + through if ranks == "mid" else 2 * through
    cdf = doubled.to(values.dtype) / (2 * count)
    result = torch.empty_like(values).scatter_(1, columns, cdf.expand_as(values))
    if valid is not None:
        result = result.masked_fill(~valid, 1.0)
    return result.view(unlabeled.shape)


def _tie_bounds(
    ordered: Float[Tensor, "rows columns"],
) -> tuple[Int[Tensor, "#rows columns"], Int[Tensor, "#rows columns"]]:
    """For sorted rows, how many values lie below each and how many up to it, ties included."""
    columns = ordered.shape[1]
    position = torch.arange(columns, device=ordered.device)
    tied = ordered[:, 1:] == ordered[:, :-1]
    # On the CPU a look is cheap and mostly saves the work; elsewhere it would wait for the device.
    if _is_plain_cpu(tied) and not bool((tied & ordered[:, 1:].isfinite()).any()):
        return position[None], position[None] + 1
    edge = torch.ones_like(tied[:, :1])
    starts = torch.cat([edge, ~tied], dim=1)
    below = torch.where(starts, position, 0).cummax(dim=1).values
    ends = torch.cat([~tied, edge], dim=1)
    last = torch.where(ends, position, columns - 1).flip(1).cummin(dim=1).values.flip(1)
    return below, last + 1


def _is_plain_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()

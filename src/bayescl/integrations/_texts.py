"""Find equal texts in a batch by their tokens, and candidates that a rule drops.

Embeddings cannot tell: dropout gives one text two different embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import normalize as unit_length

from bayescl.axes import Bool, Float, Int, Tensor

NO_TEXT = torch.iinfo(torch.int64).min
"""Stands for the anchor's text if a candidate is nobody's positive."""

_NOT_TEXT = frozenset({"pixel_values", "pixel_values_videos", "input_features", "input_values"})
_BLOCK_ELEMENTS = 2**22
_BASE, _OTHER = 0x5851F42D4C957F2D, 0x14057B7EF767814F
"""Odd numbers without a pattern, so that sums of their small multiples hardly ever meet."""


def text_keys(features: Mapping[str, Any], salt: int = 0) -> Int[Tensor, " rows"]:
    """Return a 64-bit key per text; equal tokens give equal keys, whatever the padding.

    ``salt`` tells columns and devices apart: all keys differ in a column of images or sound.
    """
    if "input_ids" not in features or _NOT_TEXT & features.keys():
        known = next(value for value in features.values() if isinstance(value, Tensor))
        rows = torch.arange(1, len(known) + 1, device=known.device)
        return rows * _BASE + torch.full_like(rows, salt + 1) * _OTHER
    flat, lengths = token_rows(features)
    rows = torch.repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    places = torch.arange(len(flat), device=flat.device) - starts[rows]
    # A polynomial in _BASE whose coefficients are the tokens; products wrap around.
    powers = flat.new_full((len(flat),), _BASE, dtype=torch.int64).cumprod(0)
    return torch.zeros_like(lengths).index_add_(0, rows, (flat + 1) * powers[places])


def token_rows(features: Mapping[str, Any]) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " rows"]]:
    """Return all tokens of a column in one row, without padding, and how many each text has."""
    tokens = features["input_ids"]
    if "cu_seq_lens_q" in features:
        return tokens.reshape(-1), features["cu_seq_lens_q"].to(torch.int64).diff()
    if "offsets" in features:
        ends = features["offsets"].new_tensor([len(tokens)])
        return tokens, torch.cat([features["offsets"], ends]).to(torch.int64).diff()
    mask = features.get("attention_mask")
    counted = torch.ones_like(tokens) != 0 if mask is None else mask != 0
    return tokens[counted], counted.sum(dim=1)


def repeats(
    candidates: Int[Tensor, " columns"], partners: Int[Tensor, " columns"]
) -> tuple[bool, bool]:
    """Whether texts repeat, other than as a pair, and whether an anchor's is also a candidate's.

    ``partners`` are the keys of the anchors whose positives the candidates are, or :data:`NO_TEXT`.
    """
    of_pairs = partners != NO_TEXT
    unlike_positive = partners[of_pairs & (partners != candidates)]
    crossing = bool(torch.isin(unlike_positive, candidates).any())
    within = repeat_themselves(candidates) or repeat_themselves(partners[of_pairs])
    return crossing or within, crossing


def repeat_themselves(keys: Int[Tensor, " rows"]) -> bool:
    """Whether a key occurs twice."""
    return len(keys.unique()) < len(keys)


@torch.no_grad()
def above_margin(
    anchors: Float[Tensor, "rows dim"],
    positives: Float[Tensor, "rows dim"],
    candidates: Float[Tensor, "columns dim"],
    margin: float,
    *,
    normalize: bool = True,
) -> Bool[Tensor, "rows columns"]:
    """True where a candidate is more similar to the anchor than its positive plus a margin."""
    if normalize:
        anchors, positives, candidates = (
            unit_length(rows.float(), dim=1) for rows in (anchors, positives, candidates)
        )
    bounds = (anchors * positives).sum(1, keepdim=True) + margin
    rows = max(1, _BLOCK_ELEMENTS // len(candidates))  # similarities of a block at a time
    blocks = zip(anchors.split(rows), bounds.split(rows), strict=True)
    return torch.cat([block @ candidates.T > bound for block, bound in blocks])

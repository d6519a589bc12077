"""Find equal texts in a batch by their tokens.

Embeddings cannot tell: dropout gives one text two different embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from bayescl.axes import Int, Tensor

_NOT_TEXT = frozenset({"pixel_values", "pixel_values_videos", "input_features", "input_values"})
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

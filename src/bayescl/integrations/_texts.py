"""Detection of equal texts in a batch by their tokens.

Embeddings cannot be compared instead: with dropout, equal texts have different embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from bayescl._types import Int, Tensor

_NOT_TEXT = frozenset({"pixel_values", "pixel_values_videos", "input_features", "input_values"})
_BASE, _OTHER = 0x5851F42D4C957F2D, 0x14057B7EF767814F
"""Arbitrary large odd numbers, so that sums of small multiples rarely coincide."""


def text_keys(features: Mapping[str, Any], salt: int = 0) -> Int[Tensor, " rows"]:
    """Return a 64-bit key per text. Equal tokens give equal keys, independent of padding.

    For images and sound all keys are distinct, also between different values of ``salt``.
    """
    if "input_ids" not in features or _NOT_TEXT & features.keys():
        known = next(value for value in features.values() if isinstance(value, Tensor))
        rows = torch.arange(1, len(known) + 1, device=known.device)
        return rows * _BASE + torch.full_like(rows, salt + 1) * _OTHER
    flat, lengths = token_rows(features)
    rows = torch.repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    places = torch.arange(len(flat), device=flat.device) - starts[rows]
    # A polynomial in _BASE with the tokens as coefficients, modulo 2^64.
    powers = flat.new_full((len(flat),), _BASE, dtype=torch.int64).cumprod(0)
    return torch.zeros_like(lengths).index_add_(0, rows, (flat + 1) * powers[places])


def token_rows(features: Mapping[str, Any]) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " rows"]]:
    """Return all tokens of a column in one row, without padding, and the length of each text."""
    tokens = features["input_ids"]
    if "cu_seq_lens_q" in features:
        return tokens.reshape(-1), features["cu_seq_lens_q"].to(torch.int64).diff()
    if "offsets" in features:
        ends = features["offsets"].new_tensor([len(tokens)])
        return tokens, torch.cat([features["offsets"], ends]).to(torch.int64).diff()
    mask = features.get("attention_mask")
    counted = torch.ones_like(tokens) != 0 if mask is None else mask != 0
    return tokens[counted], counted.sum(dim=1)


def text_groups(
    anchors: Int[Tensor, " pairs"],
    positives: Int[Tensor, " pairs"],
    *extra: Int[Tensor, " extra"],
) -> list[Int[Tensor, "rows 3"]]:
    """Return the ``groups`` of anchors, positives and candidates, given the keys of their texts.

    A candidate does not count if it has the anchor's text, its positive's text or the same anchor.
    The three groups compare anchors, positives, and anchors with candidates.
    """
    sides = [anchors, positives, anchors], [anchors, positives, positives]
    return [torch.stack(keys, dim=1) for keys in (*sides, *([keys] * 3 for keys in extra))]


def decoded_texts(features: Mapping[str, Any], model: Any) -> list[str]:
    """Decode the texts of a column from its tokens. The model may be wrapped or compiled."""
    model = getattr(model, "module", model)
    tokenizer = getattr(model, "_orig_mod", model).tokenizer
    tokens, lengths = token_rows(features)
    decode = getattr(tokenizer, "batch_decode", None) or tokenizer.decode_batch
    rows = [row.tolist() for row in tokens.split(lengths.tolist())]
    texts: list[str] = decode(rows, skip_special_tokens=True)
    return texts

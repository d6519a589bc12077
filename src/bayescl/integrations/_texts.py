"""Detection of equal texts in a batch by their tokens.

Embeddings cannot be compared instead: with dropout, equal texts have different embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bayescl._types import Bool, Int, Tensor

Features = Mapping[str, Any]
"""A tokenized column of texts."""

_NOT_TEXT = frozenset({"pixel_values", "pixel_values_videos", "input_features", "input_values"})
_BASE, _OTHER = 0x5851F42D4C957F2D, 0x14057B7EF767814F
"""Arbitrary large odd numbers, so that sums of small multiples rarely coincide."""


def text_keys(features: Features, salt: int = 0) -> Int[Tensor, " rows"]:
    """Return a 64-bit key per text. Equal tokens give equal keys, independent of padding.

    For images and sound all keys are distinct, also between different values of ``salt``.
    """
    if not is_text(features):
        known = next(value for value in features.values() if isinstance(value, Tensor))
        rows = torch.arange(1, len(known) + 1, device=known.device)
        return rows * _BASE + torch.full_like(rows, salt + 1) * _OTHER
    # A polynomial in _BASE with the tokens as coefficients, modulo 2^64.
    if not _is_flat(features):
        tokens, mask = features["input_ids"], _token_mask(features)
        powers, terms = _powers(tokens, tokens.shape[1]), (tokens + 1) * mask
        keys: Tensor = (terms * powers[mask.cumsum(dim=1)]).sum(dim=1)
        return keys
    flat, lengths = token_rows(features)
    rows = torch.repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    places = torch.arange(1, len(flat) + 1, device=flat.device) - starts[rows]
    terms = (flat + 1) * _powers(flat, len(flat))[places]
    return torch.zeros_like(lengths).index_add_(0, rows, terms)


def is_text(features: Features) -> bool:
    """Return whether a column contains only texts, without images or sound."""
    return "input_ids" in features and not _NOT_TEXT & features.keys()


def _is_flat(features: Features) -> bool:
    """Return whether the tokens of all texts follow each other without padding."""
    return "cu_seq_lens_q" in features or "offsets" in features


def _powers(tokens: Tensor, count: int) -> Int[Tensor, " powers"]:
    """Return the powers of the base, from 0 to ``count``."""
    base = tokens.new_full((count + 1,), _BASE, dtype=torch.int64)
    base[0] = 1
    return base.cumprod(0)


def _token_mask(features: Features) -> Bool[Tensor, "rows tokens"]:
    """Return True where a padded column has a token."""
    mask = features.get("attention_mask")
    return torch.ones_like(features["input_ids"]) != 0 if mask is None else mask != 0


def text_lengths(features: Features) -> Int[Tensor, " rows"]:
    """Return the number of tokens of each text."""
    return token_rows(features)[1] if _is_flat(features) else _token_mask(features).sum(dim=1)


def empty_length(features: Features, model: Any) -> int:
    """Return the number of tokens of an empty text in a column."""
    tokens, lengths = token_rows(unwrapped(model).preprocess(["", "a"]))
    length = int(lengths[0])
    if "prompt_length" not in features:
        return length
    # The length of a prompt excludes a special token at the end.
    has_end = length > 0 and bool(tokens[length - 1] == tokens[-1])
    return int(torch.as_tensor(features["prompt_length"]).max()) + has_end


def token_rows(features: Mapping[str, Any]) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " rows"]]:
    """Return all tokens of a column in one row, without padding, and the length of each text."""
    tokens = features["input_ids"]
    if "cu_seq_lens_q" in features:
        return tokens.reshape(-1), features["cu_seq_lens_q"].to(torch.int64).diff()
    if "offsets" in features:
        ends = features["offsets"].new_tensor([len(tokens)])
        return tokens, torch.cat([features["offsets"], ends]).to(torch.int64).diff()
    counted = _token_mask(features)
    return tokens[counted], counted.sum(dim=1)


def text_groups(
    keys: Sequence[Int[Tensor, " batch"]], num_positives: int
) -> list[list[Int[Tensor, "batch keys"]]]:
    """Return the ``groups`` of each column, given the keys of its texts: anchors first.

    They mask copies of the anchor, copies of its positives, and other positives of the same anchor.
    Keys compare candidates with the anchor, with each positive, and by their anchors.
    """
    anchors, positives, extra = keys[0], keys[1 : 1 + num_positives], keys[1 + num_positives :]
    return [
        [anchors, *positives, anchors],
        *([key] * (1 + num_positives) + [anchors] for key in positives),
        *([key] * (2 + num_positives) for key in extra),
    ]


def unwrapped(model: Any) -> Any:
    """Return the model inside wrappers for several devices and for compilation."""
    model = getattr(model, "module", model)
    return getattr(model, "_orig_mod", model)


def decoded_texts(features: Mapping[str, Any], model: Any) -> list[str]:
    """Decode the texts of a column from its tokens. The model may be wrapped or compiled."""
    tokenizer = unwrapped(model).tokenizer
    tokens, lengths = token_rows(features)
    decode = getattr(tokenizer, "batch_decode", None) or tokenizer.decode_batch
    rows = [row.tolist() for row in tokens.split(lengths.tolist())]
    texts: list[str] = decode(rows, skip_special_tokens=True)
    return texts

"""Keys of texts and masks of equal texts; needs no other library."""

from __future__ import annotations

import torch

from bayescl.integrations._texts import UNKNOWN, above_margin, equal_texts, text_keys

TEXTS = [[5, 6, 7], [5], [7, 6, 5], [5, 6, 7], [6, 5]]


def padded(texts: list[list[int]], width: int, side: str) -> dict[str, torch.Tensor]:
    tokens, mask = torch.zeros(len(texts), width), torch.zeros(len(texts), width)
    for row, text in enumerate(texts):
        place = slice(0, len(text)) if side == "right" else slice(width - len(text), width)
        tokens[row, place] = torch.tensor(text, dtype=torch.float32)
        mask[row, place] = 1
    return {"input_ids": tokens.long(), "attention_mask": mask.long()}


def test_equal_texts_share_a_key_whatever_the_padding() -> None:
    lengths = torch.tensor([len(text) for text in TEXTS])
    flat = torch.tensor([token for text in TEXTS for token in text])
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ways = [
        padded(TEXTS, 3, "right"),
        padded(TEXTS, 9, "right"),
        padded(TEXTS, 4, "left"),
        {"input_ids": flat, "offsets": ends[:-1]},
        {"input_ids": flat[None], "cu_seq_lens_q": ends.int()},
    ]
    keys = [text_keys(way).tolist() for way in ways]
    assert all(other == keys[0] for other in keys)


def test_texts_of_other_tokens_or_another_order_have_other_keys() -> None:
    keys = text_keys(padded(TEXTS, 3, "right")).tolist()
    assert keys[0] == keys[3]
    assert len(set(keys)) == 4


def test_keys_of_many_short_texts_do_not_collide() -> None:
    pairs = torch.cartesian_prod(torch.arange(300), torch.arange(300))
    assert text_keys({"input_ids": pairs}).unique().numel() == len(pairs)


def test_a_token_of_number_zero_at_the_end_is_part_of_the_text() -> None:
    short = text_keys({"input_ids": torch.tensor([[4]])})
    long = text_keys({"input_ids": torch.tensor([[4, 0]])})
    assert short.item() != long.item()


def test_images_are_never_taken_for_equal() -> None:
    column = {"input_ids": torch.ones(2, 3).long(), "pixel_values": torch.zeros(2, 3, 4, 4)}
    keys = text_keys(column)
    assert keys.tolist() == [UNKNOWN, UNKNOWN]
    texts = torch.tensor([1, 2])
    assert equal_texts(texts, keys, keys, texts) is None
    repeated = torch.tensor([1, 1])
    found = equal_texts(repeated, keys, keys, repeated)
    assert found is not None
    assert found.tolist() == [[True, True], [True, True]]  # of the same anchor, not the same image


def test_a_candidate_is_dropped_for_each_reason_alone() -> None:
    anchors, positives = torch.tensor([1, 2, 1, 3]), torch.tensor([11, 12, 13, 1])
    # Columns: the positives, then hard negatives; the last two repeat a positive and an anchor.
    candidates = torch.cat([positives, torch.tensor([21, 22, 12, 3])])
    partners = torch.cat([anchors, torch.full((4,), UNKNOWN)])
    found = equal_texts(anchors, positives, candidates, partners)
    expected = [
        [1, 0, 1, 1, 0, 0, 0, 0],  # own; same anchor as row 2; row 3's positive is the anchor
        [0, 1, 0, 0, 0, 0, 1, 0],
        [1, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 1],
    ]
    assert found is not None
    assert found.long().tolist() == expected


def test_no_mask_is_made_where_no_text_repeats_itself() -> None:
    anchors, positives = torch.arange(3), torch.arange(10, 13)
    assert equal_texts(anchors, positives, positives, anchors) is None
    # An anchor that equals its own positive (two dropout masks of one text) repeats nothing.
    assert equal_texts(anchors, anchors, anchors, anchors) is None


def test_candidates_above_the_positive_by_more_than_the_margin_are_found() -> None:
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    positives = torch.tensor([[0.6, 0.8], [0.0, 2.0]])
    candidates = torch.tensor([[0.6, 0.8], [0.7, 0.714142843], [1.0, 0.0]])
    assert above_margin(anchors, positives, candidates, 0.0).tolist() == [
        [False, True, True],
        [False, False, False],
    ]
    assert above_margin(anchors, positives, candidates, 0.2).tolist()[0] == [False, False, True]

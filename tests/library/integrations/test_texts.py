"""Keys of texts; needs no other library."""

import torch

from bayescl.integrations._texts import text_keys

TEXTS = [[5, 6, 7], [5], [7, 6, 5], [5, 6, 7], [6, 5]]


def padded(texts: list[list[int]], width: int, side: str) -> dict[str, torch.Tensor]:
    tokens, mask = torch.zeros(len(texts), width), torch.zeros(len(texts), width)
    for row, text in enumerate(texts):
        place = slice(0, len(text)) if side == "right" else slice(width - len(text), width)
        tokens[row, place] = torch.tensor(text, dtype=torch.float32)
        mask[row, place] = 1
    return {"input_ids": tokens.long(), "attention_mask": mask.long()}


def test_equal_texts_share_a_key_whatever_the_padding():
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


def test_texts_of_other_tokens_or_another_order_have_other_keys():
    keys = text_keys(padded(TEXTS, 3, "right")).tolist()
    assert keys[0] == keys[3]
    assert len(set(keys)) == 4
    pairs = torch.cartesian_prod(torch.arange(300), torch.arange(300))
    assert text_keys({"input_ids": pairs}).unique().numel() == len(pairs)
    # A token of number zero at the end is part of the text.
    short, long = (text_keys({"input_ids": torch.tensor([text])}) for text in ([4], [4, 0]))
    assert short.item() != long.item()
    # Images are never taken for equal.
    column = {"input_ids": torch.ones(50, 3).long(), "pixel_values": torch.zeros(50, 3, 4, 4)}
    keys = torch.cat([text_keys(column, salt) for salt in range(100)])
    assert keys.unique().numel() == 5000

"""The latent-class objective on logits, against a slow loop and by its identities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from reference import objectives as reference
from torch import Tensor

from bayescl import functional as F
from bayescl.functional.latent import AIMS, STRENGTH


def drawn(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positive = 2 * torch.rand(rows, generator=generator, dtype=torch.float64)
    unlabeled = 4 * torch.rand(rows, columns, generator=generator, dtype=torch.float64) - 2
    posterior = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return positive.requires_grad_(), unlabeled.requires_grad_(), posterior


def settings_of(aims: tuple[str, ...] = AIMS) -> Iterator[dict[str, Any]]:
    """Every aim, with and without labels that settle some pairs, and some strengths."""
    _, _, posterior = drawn(5, 9, seed=3)
    for aim, known in product(aims, (None, posterior < 0.4)):
        numbers = ((0.0, 0.0, 1.0), (1.0, 0.5, 2.5), (2.5, 0.5, 1.0), (1.0, 1.0, 1.0))
        for attraction, threshold, sharpness in numbers:
            chosen = {"attraction": attraction, "threshold": threshold, "sharpness": sharpness}
            yield {**chosen, "aim": aim, "is_labeled": known}


def test_values_and_gradients_equal_the_slow_loop() -> None:
    positive, unlabeled, posterior = drawn(5, 9)
    upstream = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    for chosen in settings_of():
        known = chosen["is_labeled"] if chosen["is_labeled"] is not None else [None] * 5
        rows = zip(positive, unlabeled, posterior, known, strict=True)
        expected = torch.stack(
            [reference.latent(*row, **chosen | {"is_labeled": certain}) for *row, certain in rows]
        )
        result = F.latent_loss(positive, unlabeled, posterior, **chosen)
        told = str(chosen)
        assert torch.allclose(result, expected, rtol=1e-12, atol=1e-12), told
        for mine, slow in zip(
            torch.autograd.grad(result, (positive, unlabeled), upstream),
            torch.autograd.grad(expected, (positive, unlabeled), upstream),
            strict=True,
        ):
            assert torch.allclose(mine, slow, rtol=1e-10, atol=1e-10), told


def test_members_are_ranked_above_others_and_then_left_alone() -> None:
    """However many members there are, their total pull is bounded, and none is on the positive."""
    positive, unlabeled, _ = drawn(1, 9)
    same = torch.tensor([[1.0] * 6 + [0.0] * 3], dtype=torch.float64)

    def found(logits: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor]:
        value = F.latent_loss(positive, logits, posterior, attraction=0.7)
        return torch.autograd.grad(value.sum(), (positive, logits))

    of_positive, of_logits = found(unlabeled, same)
    of_plain, plain = found(unlabeled, 0 * same)
    assert torch.equal(of_positive, of_plain)
    added = of_logits - plain
    assert (added[0, :6] < 0).all()
    assert (added[0, 6:] > 0).all()
    assert -0.7 * STRENGTH <= float(added[0, :6].sum()) < 0
    ahead = (unlabeled.detach() + 50 * same).requires_grad_()
    assert (found(ahead, same)[1] - found(ahead, 0 * same)[1]).abs().max() < 1e-12


def test_without_a_posterior_it_is_info_nce_bit_for_bit() -> None:
    for dtype, aim, attraction in product((torch.float32, torch.float64), AIMS, (1.0, 0.0)):
        positive, unlabeled, posterior = (value.detach().to(dtype) for value in drawn(6, 11))
        results = []
        strength = {"attraction": attraction, "trust": 0.0 if aim == "pairs" else 1.0}
        chosen = {"same_class": 0 * posterior, "aim": aim, **strength}
        for loss in (partial(F.latent_loss, **chosen), F.info_nce_loss):
            leaves = positive.clone().requires_grad_(), unlabeled.clone().requires_grad_()
            value = loss(*leaves)
            results.append((value, *torch.autograd.grad(value.sum(), leaves)))
        assert all(torch.equal(*pair) for pair in zip(*results, strict=True)), aim


def test_what_is_not_valid_changes_nothing_and_receives_nothing() -> None:
    positive, unlabeled, posterior = drawn(6, 9, seed=1)
    valid = torch.rand(6, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    valid[:, 0], valid[5] = True, False
    certain = posterior < 0.4
    for aim in AIMS:
        result = F.latent_loss(
            positive, unlabeled, posterior, valid=valid, is_labeled=certain, aim=aim
        )
        for i in range(5):
            parts = (values[None, i, valid[i]] for values in (unlabeled, posterior, certain))
            logits, same, known = parts
            alone = F.latent_loss(positive[i : i + 1], logits, same, is_labeled=known, aim=aim)
            torch.testing.assert_close(result[i : i + 1], alone)
        assert result[5] == 0  # a row without candidates costs nothing
        assert not F.latent_loss(positive, unlabeled[:, :0], posterior[:, :0], aim=aim).any()
        gradients = torch.autograd.grad(result.sum(), (positive, unlabeled))
        assert gradients[0][5] == 0
        assert (gradients[1][~valid] == 0).all()


def test_a_row_of_one_class_has_no_negatives() -> None:
    positive, unlabeled, posterior = drawn(2, 4)
    ones = torch.ones_like(posterior)
    classes = partial(F.latent_loss, aim="classes")
    assert (classes(positive, unlabeled, ones, attraction=0.0) == 0).all()
    gap = positive - torch.cat([positive[:, None], unlabeled], dim=1).mean(dim=1)
    torch.testing.assert_close(classes(positive, unlabeled, ones), gap)
    plain = F.info_nce_loss(positive, unlabeled)  # nobody to be ranked above, but once more
    torch.testing.assert_close(F.latent_loss(positive, unlabeled, ones), 2 * plain)
    for aim in AIMS:
        result = F.latent_loss(positive, unlabeled, ones, aim=aim)
        gradients = torch.autograd.grad(result.sum(), (positive, unlabeled))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_arguments_out_of_range_are_refused() -> None:
    positive, unlabeled, posterior = drawn(2, 3)
    for bad, message in {
        ("attraction", 1e300): r"attraction must lie in \[0, 1e\+06\], got 1e\+300",
        ("threshold", 2): r"threshold must lie in \[0, 1\], got 2",
        ("sharpness", 0): "sharpness must be positive, got 0",
        ("aim", "classes "): "aim must be one of pairs, classes, got 'classes '",
        ("is_labeled", posterior): "is_labeled must be boolean",
        ("is_labeled", posterior[0] < 0): r"is_labeled must have shape \[2, 3\], got \[3\]",
    }.items():
        with pytest.raises(ValueError, match=message):
            F.latent_loss(positive, unlabeled, posterior, **dict([bad]))
    with pytest.raises(ValueError, match=r"same_class must have shape \[2, 3\], got \[2, 2\]"):
        F.latent_loss(positive, unlabeled, posterior[:, :2])

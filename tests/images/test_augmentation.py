from __future__ import annotations

import pytest
import torch

from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.datasets import load_images

DIGITS = load_images("digits").train.images


def distances(views: torch.Tensor) -> torch.Tensor:
    """Largest pixel difference of every two views."""
    flat = views.flatten(1)
    gaps = (flat[:, None] - flat[None]).abs().amax(dim=2)
    return gaps[~torch.eye(len(flat), dtype=torch.bool)]


def test_no_two_images_of_a_batch_share_parameters():
    same = DIGITS[:1].expand(256, -1, -1, -1)
    assert distances(AffineNoise()(same, seed=0)).min() > 0.05


def test_no_two_images_of_a_batch_share_their_affine_map():
    augmentation = AffineNoise()
    same = DIGITS[:1].expand(256, -1, -1, -1).float() / 255
    assert distances(augmentation.affine(same)).min() > 1e-4
    maps = augmentation.affine.transform_matrix.flatten(1)
    assert len(maps.unique(dim=0)) == 256


def test_noise_has_another_level_in_every_image():
    augmentation = AffineNoise()
    empty = torch.zeros(64, 1, 32, 32, dtype=torch.uint8)
    levels = augmentation(empty, seed=0).flatten(1).std(dim=1)
    assert levels.min() < 0.02
    assert levels.max() > 0.12
    assert len(levels.unique()) == 64


def test_a_seed_fixes_the_views_and_another_changes_every_one():
    augmentation = AffineNoise()
    views = augmentation(DIGITS[:32], seed=1)
    assert torch.equal(views, augmentation(DIGITS[:32], seed=1))
    others = augmentation(DIGITS[:32], seed=2)
    assert (views - others).abs().flatten(1).amax(dim=1).min() > 0.05


def test_drawing_views_leaves_the_generator_of_torch_alone():
    augmentation = AffineNoise()
    before = torch.get_rng_state()
    augmentation(DIGITS[:4], seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_strength_zero_leaves_images_as_they_are():
    views = AffineNoise(0.0)(DIGITS[:8], seed=0)
    torch.testing.assert_close(views, DIGITS[:8].float() / 255, atol=1e-6, rtol=0)


def test_stronger_views_are_farther_from_their_image():
    plain = DIGITS[:256].float() / 255
    gaps = [(AffineNoise(s)(DIGITS[:256], seed=0) - plain).abs().mean() for s in (0.3, 0.7, 1.2)]
    assert gaps[0] < gaps[1] < gaps[2]


def test_normalised_training_images_have_mean_0_and_deviation_1():
    images = torch.randint(0, 256, (50, 3, 6, 6), dtype=torch.uint8)
    images[:, 2] //= 4
    normalised = Normalization(images)(images.float() / 255)
    deviation, mean = torch.std_mean(normalised, dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(mean, torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(deviation, torch.ones(3), atol=1e-5, rtol=0)


def test_an_empty_channel_becomes_zero_and_not_nan():
    images = torch.full((4, 1, 2, 2), 200, dtype=torch.uint8)
    assert Normalization(images)(images.float() / 255).abs().max() < 1e-6


@pytest.mark.parametrize("strength", [-0.1, 6.0, float("nan")])
def test_a_strength_outside_its_interval_is_refused(strength):
    with pytest.raises(ValueError, match="strength must"):
        AffineNoise(strength)

from __future__ import annotations

import pytest
import torch

from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.store import ImageStore

DIGITS = load_images("digits").train.images


def distances(views: torch.Tensor) -> torch.Tensor:
    """Largest pixel difference of every two views."""
    flat = views.flatten(1)
    gaps = (flat[:, None] - flat[None]).abs().amax(dim=2)
    return gaps[~torch.eye(len(flat), dtype=torch.bool)]


def test_no_two_images_of_a_batch_share_parameters():
    augmentation = AffineNoise()
    same = DIGITS[:1].expand(256, -1, -1, -1)
    assert distances(augmentation(same, seed=0)).min() > 0.05
    assert distances(augmentation.affine(same.float() / 255)).min() > 1e-4
    assert len(augmentation.affine.transform_matrix.flatten(1).unique(dim=0)) == 256


def test_noise_has_another_level_in_every_image():
    augmentation = AffineNoise()
    empty = torch.zeros(64, 1, 32, 32, dtype=torch.uint8)
    levels = augmentation(empty, seed=0).flatten(1).std(dim=1)
    assert levels.min() < 0.02
    assert levels.max() > 0.12
    assert len(levels.unique()) == 64


@pytest.mark.parametrize("augmentation", [AffineNoise(), SimCLRAugmentation()])
def test_a_seed_fixes_the_views_and_leaves_the_generator_of_torch_alone(augmentation):
    before = torch.get_rng_state()
    views = augmentation(DIGITS[:32], seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert torch.equal(views, augmentation(DIGITS[:32], seed=1))
    others = augmentation(DIGITS[:32], seed=2)
    assert (views - others).abs().flatten(1).amax(dim=1).min() > 0.01


def test_stronger_views_are_farther_from_their_image_and_strength_zero_changes_nothing():
    plain = DIGITS[:256].float() / 255
    gaps = [(AffineNoise(s)(DIGITS[:256], seed=0) - plain).abs() for s in (0.0, 0.3, 0.7, 1.2)]
    assert gaps[0].max() < 1e-6
    means = [float(gap.mean()) for gap in gaps]
    assert means == sorted(means)


def normalised(images: torch.Tensor) -> torch.Tensor:
    store = ImageStore(images, torch.zeros(len(images), dtype=torch.int64), ("any",))
    return Normalization(store)(images.float() / 255)


def test_normalised_training_images_have_mean_0_and_deviation_1():
    images = torch.randint(0, 256, (50, 3, 6, 6), dtype=torch.uint8)
    images[:, 2] //= 4
    deviation, mean = torch.std_mean(normalised(images), dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(mean, torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(deviation, torch.ones(3), atol=1e-5, rtol=0)
    # An empty channel becomes zero and not NaN.
    assert normalised(torch.full((4, 1, 2, 2), 200, dtype=torch.uint8)).abs().max() < 1e-6

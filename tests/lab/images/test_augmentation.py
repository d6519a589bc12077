import numpy as np
import pytest
import torch
from scipy.ndimage import affine_transform
from torch.nn import functional as F

from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.datasets import load_images
from bayescl_lab.items.store import ItemStore

DIGITS = load_images("digits").train.items


def distances(views: torch.Tensor) -> torch.Tensor:
    """Largest pixel difference of every two views."""
    flat = views.flatten(1)
    gaps = (flat[:, None] - flat[None]).abs().amax(dim=2)
    return gaps[~torch.eye(len(flat), dtype=torch.bool)]


def test_no_two_images_of_a_batch_share_parameters():
    augmentation = AffineNoise()
    same = DIGITS[:1].expand(256, -1, -1, -1)
    assert distances(augmentation(same, seed=0)).min() > 0.05
    maps = augmentation.draw_maps(256, 8, 8, torch.Generator().manual_seed(0))
    assert len(maps.flatten(1).unique(dim=0)) == 256


def test_maps_shear_rotate_scale_and_shift_an_image_about_its_center():
    """Each view is resampled by SciPy at places that float64 matrices of the four steps give."""
    height, width, reach = 20, 28, 1.5
    images = torch.randint(0, 256, (16, 1, height, width), dtype=torch.uint8)
    augmentation = AffineNoise(reach)
    maps = augmentation.draw_maps(16, height, width, torch.Generator().manual_seed(3))
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    views = F.grid_sample(images / 255, grid, align_corners=False)
    generator = torch.Generator().manual_seed(3)
    reaches = reach * np.array([15.0, 0.15, 0.1, 0.1, 10.0])
    draws = torch.rand(5, 16, generator=generator).double().numpy()
    center = np.array([width / 2 - 0.5, height / 2 - 0.5])
    for number, image in enumerate(images[:, 0].numpy() / 255):
        values = np.array([0.0, 1.0, 0.0, 0.0, 0.0]) + reaches * (2 * draws[:, number] - 1)
        angle, scale, shift_x, shift_y, shear = values
        cosine, sine = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        rotation = scale * np.array([[cosine, -sine], [sine, cosine]])
        inverse = np.linalg.inv(rotation @ [[1, -np.tan(np.deg2rad(shear))], [0, 1]])
        shift = np.array([shift_x * width, shift_y * height])
        offset = center - inverse @ (center + shift)
        swapped = inverse[::-1, ::-1], offset[::-1]  # SciPy counts rows first
        expected = affine_transform(image, *swapped, order=1, mode="grid-constant")
        np.testing.assert_allclose(views[number, 0], expected, atol=2e-5)


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


def normalized(images: torch.Tensor) -> torch.Tensor:
    store = ItemStore(images, torch.zeros(len(images), dtype=torch.int64), ("any",))
    return Normalization(store)(images.float() / 255)


def test_normalized_training_images_have_mean_0_and_deviation_1():
    images = torch.randint(0, 256, (50, 3, 6, 6), dtype=torch.uint8)
    images[:, 2] //= 4
    deviation, mean = torch.std_mean(normalized(images), dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(mean, torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(deviation, torch.ones(3), atol=1e-5, rtol=0)
    # An empty channel becomes zero and not NaN.
    assert normalized(torch.full((4, 1, 2, 2), 200, dtype=torch.uint8)).abs().max() < 1e-6

"""Views of images: augmentation of a whole batch at once, with parameters per image."""

from __future__ import annotations

import kornia.augmentation as kornia
import torch
from jaxtyping import UInt8
from torch import nn

from bayescl._axes import Float, Tensor
from bayescl._checks import check_interval
from bayescl._randomness import seeded


class Normalization(nn.Module):
    """Scale pixel values to mean 0 and standard deviation 1 in every channel.

    Mean and deviation are those of the images given, and are part of ``state_dict``.

    Args:
        images: the images to measure, normally all training images.
    """

    mean: Float[Tensor, "1 channels 1 1"]
    deviation: Float[Tensor, "1 channels 1 1"]

    def __init__(self, images: UInt8[Tensor, "images channels height width"]) -> None:
        super().__init__()
        pixels = images.double() / 255
        deviation, mean = torch.std_mean(pixels, dim=(0, 2, 3), keepdim=True, correction=0)
        # A channel without any variation carries nothing; it becomes 0 rather than NaN.
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        self.register_buffer("mean", mean.float())
        self.register_buffer("deviation", deviation.float())

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Normalise images with values in [0, 1]."""
        return (images - self.mean) / self.deviation


class AffineNoise(nn.Module):
    """Views for small drawings: a random affine map and Gaussian noise of a random level.

    Every image draws its own rotation, shift, scale, shear and noise level, and no mirror
    image is ever made, since most characters differ from theirs. What moves in from outside
    the image is 0, the background.

    At strength 1 rotations reach 15 degrees and shears 10 to either side, shifts 10 % of the
    image's side, sizes 0.85 to 1.15, and noise levels a standard deviation of 0.15, where 1 is
    the range of pixel values. Other strengths scale them all.

    Args:
        strength: how much views differ from their image, in [0, 5]; 0 leaves images as they are.
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        check_interval("strength", strength, 0.0, 5.0)
        self.strength = strength
        self.affine = kornia.RandomAffine(
            degrees=15.0 * strength,
            translate=(0.1 * strength, 0.1 * strength),
            scale=(1 - 0.15 * strength, 1 + 0.15 * strength),
            shear=(-10.0 * strength, 10.0 * strength),
            p=1.0,
        )

    def forward(
        self, images: UInt8[Tensor, "batch channels height width"], *, seed: int
    ) -> Float[Tensor, "batch channels height width"]:
        """Draw one view of each image.

        Args:
            images: pixel values, 0 to 255.
            seed: fixes the draw; the same seed gives the same views.

        Returns:
            Views with values around [0, 1]; noise may leave the interval.
        """
        pixels = images.float() / 255
        with seeded(seed, images.device):
            moved = self.affine(pixels)
            level = 0.15 * self.strength * torch.rand(len(moved), 1, 1, 1, device=moved.device)
            return moved + level * torch.randn_like(moved)

"""Normalization, and views of small drawings. For photographs, see ``augmentation_recipe``.

Every augmentation works on a whole batch at once, with parameters per image.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from bayescl_lab.images.encoders import Views
from bayescl_lab.images.pixels import Pixels
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.store import ItemStore, copied_to

_VALUES_AT_ONCE = 2**24  # pixel values measured at a time; limits memory


class Normalization(nn.Module):
    """Scale pixel values to mean 0 and standard deviation 1 in every channel.

    Mean and deviation are computed from the given images and are part of ``state_dict``.
    """

    mean: Float[Tensor, "1 channels 1 1"]
    deviation: Float[Tensor, "1 channels 1 1"]

    def __init__(self, images: ItemStore) -> None:
        super().__init__()
        size = math.prod(images.item_shape)
        counts = torch.zeros(images.item_shape[0], 256, dtype=torch.int64)
        for some in torch.arange(len(images)).split(max(1, _VALUES_AT_ONCE // size)):
            for channel, pixels in enumerate(images.take(some).unbind(dim=1)):
                counts[channel] += torch.bincount(pixels.flatten(), minlength=256).cpu()
        shares = counts.double() / counts.sum(dim=1, keepdim=True)
        values = torch.arange(256, dtype=torch.float64) / 255
        mean = shares @ values
        deviation = (shares * (values - mean[:, None]).square()).sum(dim=1).sqrt()
        # A constant channel becomes 0 instead of NaN.
        deviation[shares.amax(dim=1) == 1] = 1.0
        self.register_buffer("mean", mean.float().view(1, -1, 1, 1))
        self.register_buffer("deviation", deviation.float().view(1, -1, 1, 1))

    def forward(self, images: Views) -> Views:
        """Normalize images with values in [0, 1]."""
        return (images - self.mean) / self.deviation


class AffineNoise(Augmentation):
    """Views of small drawings: a random affine map and Gaussian noise of random strength.

    Every image has its own random rotation, shift, scale, shear and noise level. Images are not
    mirrored, because most characters differ from their mirror image. Pixels outside the image are
    0.

    At strength 1, rotations are up to 15 degrees and shears up to 10 degrees in either direction.
    Shifts are up to 10 % of the image's side, and scales are 0.85 to 1.15. The noise has a standard
    deviation of up to 0.15 of the range of pixel values. Other strengths scale all of these.

    ``strength`` lies in [0, 5]; 0 leaves images unchanged.
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, images: Pixels, *, seed: int) -> Views:
        """Draw one view of each image with a seed. Values can be slightly outside [0, 1].

        The maps are the same on all devices. The noise differs between devices.
        """
        device = images.device
        generator = torch.Generator().manual_seed(seed)
        count, _, height, width = images.shape
        maps = copied_to(self.draw_maps(count, height, width, generator), device)
        if device.type == "cuda":
            generator = torch.Generator(device).manual_seed(seed)
        with torch.autocast(device.type, enabled=False):
            pixels = images.float() / 255
            grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
            moved = F.grid_sample(pixels, grid, align_corners=False)
            shape = (len(moved), 1, 1, 1)
            level = 0.15 * self.strength * torch.rand(shape, generator=generator, device=device)
            return moved + level * torch.randn(moved.shape, generator=generator, device=device)

    def draw_maps(
        self, count: int, height: int, width: int, generator: torch.Generator
    ) -> Float[Tensor, "count 2 3"]:
        """Draw affine maps from output to input coordinates in [-1, 1], on the CPU.

        Images are sheared along their rows, then rotated, scaled and shifted, about the center.
        """

        def uniform(low: float, high: float) -> Float[Tensor, " count"]:
            return low + (high - low) * torch.rand(count, generator=generator)

        reach = self.strength
        angle = uniform(-15 * reach, 15 * reach).deg2rad()
        scale = uniform(1 - 0.15 * reach, 1 + 0.15 * reach)
        shift = torch.stack([2 * uniform(-0.1 * reach, 0.1 * reach) for _ in range(2)], dim=1)
        shear = uniform(-10 * reach, 10 * reach).deg2rad().tan()
        torch.rand(count, generator=generator)  # not used: noise keeps its position among the draws
        cosine, sine = angle.cos() / scale, angle.sin() / scale
        # The inverse of the shear [[1, -s], [0, 1]] times the inverse of the scaled rotation. Steps
        # of one pixel differ in length along the two sides if the image is not square.
        ratio = height / width
        rows = [cosine - shear * sine, ratio * (sine + shear * cosine), -sine / ratio, cosine]
        inverse = torch.stack(rows, dim=1).view(-1, 2, 2)
        return torch.cat([inverse, -inverse @ shift[:, :, None]], dim=2)

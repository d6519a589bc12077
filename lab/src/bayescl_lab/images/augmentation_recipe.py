"""Views of photographs by SimCLR's augmentation, for a whole batch at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2.functional import rgb_to_grayscale

from bayescl_lab.images.encoders import Views
from bayescl_lab.images.pixels import Pixels
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.store import copied_to

Factor = Float[Tensor, " batch"]

CROP_AREA, CROP_RATIO = 0.08, (3 / 4, 4 / 3)
"""Smallest share of the image in a crop at strength 1, and the range of width / height."""
JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
"""Largest deviation of each factor from 1 (hue: from 0) at strength 1."""
BLUR_SIGMA = (0.1, 2.0)
MIRROR_SHARE, JITTER_SHARE, GRAY_SHARE, BLUR_SHARE = 0.5, 0.8, 0.2, 0.5
"""Share of images that each step changes."""
_ATTEMPTS = 10


class SimCLRAugmentation(Augmentation):
    """Views of photographs: crop, mirror, color jitter, gray and blur.

    Every image has its own random parameters. The steps are: a resized crop of 8 % to 100 % of the
    area; mirroring (half of the images); changes of brightness, contrast, saturation and hue by up
    to 0.4, 0.4, 0.4 and 0.1 in random order (80 %); conversion to gray (20 %); and a 3 x 3 Gaussian
    blur with a standard deviation of 0.1 to 2 (half). Saturation and hue change only in RGB images.

    Args:
        strength: Strength of the augmentation; see :func:`draw_parameters`.
        size: Side of the views in pixels. Default: the size of the images.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
        ICML 2020; with the blur of Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.
    """

    def __init__(self, strength: float = 1.0, size: int | None = None) -> None:
        super().__init__()
        self.strength = strength
        self.size = size

    def forward(self, images: Pixels, *, seed: int) -> Views:
        """Draw one view of each image with a seed. Values are in [0, 1]."""
        (views,) = self.views(images, [seed])
        return views

    def views(self, images: Pixels, seeds: Sequence[int]) -> tuple[Views, ...]:
        """Draw one view of each image per seed, all in one pass."""
        return self.apply_rows(images, self.parameter_rows(images, seeds))

    def parameter_rows(
        self, images: Pixels, seeds: Sequence[int]
    ) -> Float[Tensor, "views {PARAMETERS}"]:
        """Draw the parameters of one view of each image per seed, on the images' device."""
        drawn = [
            draw_parameters(*images.shape, strength=self.strength, seed=seed) for seed in seeds
        ]
        return copied_to(torch.cat(drawn), images.device)

    @torch.no_grad()
    def apply_rows(
        self, images: Pixels, rows: Float[Tensor, "views {PARAMETERS}"]
    ) -> tuple[Views, ...]:
        """Compute one view per row of parameters. The first rows are the first view of all images.

        On a GPU, every step computes all images, with neutral parameters where it does not apply.
        Shapes do not depend on the parameters, so there is no device synchronization.
        """
        count = len(rows) // len(images)
        size = self.size or images.shape[2], self.size or images.shape[3]
        boxes, is_mirrored, jitter, gray, side = rows.split([4, 1, 16, 1, 1], dim=1)
        is_gray, side = gray[:, 0], side[:, 0]
        # bfloat16 would leave pixels 8 bits in the products, and fewer after the jitter.
        with torch.autocast(images.device.type, enabled=False):
            pixels = (images.float() / 255).repeat(count, 1, 1, 1)
            views = resized_crop(pixels, boxes, size, is_mirrored[:, 0] > 0.5)
            has_colors = views.shape[1] == 3
            for factor, *others, turns in (it.unbind(dim=1) for it in jitter.split(4, dim=1)):
                views = _changed(views, factor != 1, _blend, factor, *others)
                if has_colors:
                    views = _changed(views, turns != 0, adjust_hue, turns)
            if has_colors:
                views = _changed(views, is_gray > 0, _to_gray, is_gray)
            views = _changed(views, side > 0, _blur, side)
        return views.chunk(count)


PARAMETERS = 23
"""Columns of :func:`draw_parameters`."""


def draw_parameters(
    count: int, channels: int, height: int, width: int, *, strength: float = 1.0, seed: int
) -> Float[Tensor, "count {PARAMETERS}"]:
    """Draw the parameters of one view per image as rows, for images of one shape, on the CPU.

    The columns are the box (top, left, height and width), whether it is mirrored, the four steps of
    the color jitter (4 x 4), the share of gray, and the weight of a neighbor in the blur relative
    to the middle. A step of the color jitter has a factor, the weights of the gray image and of the
    mean gray value (see :func:`_blend`), and a hue shift (1 is a full circle). Steps that do not
    apply have neutral values.

    ``strength``, in [0, 5] and 1 in the recipe, scales the range of every jitter (hue's up to 0.5),
    and sets the smallest crop to ``0.08 ** strength`` of the area. The parameters are the same on
    all devices.

    Example:
        >>> draw_parameters(3, 3, 32, 32, seed=0).shape
        torch.Size([3, 23])
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    boxes = _crop_boxes(count, height, width, CROP_AREA**strength, generator)
    center, reach = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(list(JITTER.values()))
    low = (center - reach * strength).maximum(torch.tensor([0.0, 0.0, 0.0, -0.5]))
    high = (center + reach * strength).minimum(torch.tensor([torch.inf] * 3 + [0.5]))
    is_mirrored = uniform(count) < MIRROR_SHARE
    is_jittered = uniform(count) < JITTER_SHARE
    order = uniform(count, 4).argsort(dim=1)  # of brightness 0, contrast 1, saturation 2 and hue 3
    values = (low + (high - low) * uniform(count, 4)).gather(1, order)
    is_gray = uniform(count) < GRAY_SHARE
    is_blurred = uniform(count) < BLUR_SHARE
    sigma = BLUR_SIGMA[0] + (BLUR_SIGMA[1] - BLUR_SIGMA[0]) * uniform(count)

    kinds = order.where(is_jittered[:, None] & ((order < 2) | (channels == 3)), -1)
    factors = values.where((kinds >= 0) & (kinds < 3), 1.0)
    hues = values.where(kinds == 3, 0.0)
    steps = torch.stack([factors, kinds == 2, kinds == 1, hues], dim=2)
    sides = (-0.5 / sigma.square()).exp().where(is_blurred, 0.0)
    columns = [is_mirrored, *steps.flatten(1).unbind(dim=1), is_gray, sides]
    return torch.cat([boxes, torch.stack(columns, dim=1)], dim=1)


def _crop_boxes(
    count: int, height: int, width: int, smallest: float, generator: torch.Generator
) -> Int[Tensor, "batch 4"]:
    """Draw top, left, height and width of a crop of each image, like torchvision.

    Area and log-ratio are uniform. The first of ten draws that fits into the image is used. If none
    fits, the crop is the largest centered box of an allowed ratio.
    """
    shape = (count, _ATTEMPTS)
    area = smallest + (1 - smallest) * torch.rand(shape, generator=generator)
    low, high = (math.log(ratio) for ratio in CROP_RATIO)
    ratio = (low + (high - low) * torch.rand(shape, generator=generator)).exp()
    pixels = height * width * area
    sides = torch.stack([pixels / ratio, pixels * ratio], dim=2).sqrt().round().long()
    whole = torch.tensor([height, width])
    fits = ((sides >= 1) & (sides <= whole)).all(dim=2)

    first = sides[torch.arange(count), fits.long().argmax(dim=1)]
    largest = [min(height, round(width / CROP_RATIO[0])), min(width, round(height * CROP_RATIO[1]))]
    is_drawn = fits.any(dim=1, keepdim=True)
    chosen = torch.where(is_drawn, first, torch.tensor(largest))
    # 0.5 of an odd number of positions is the middle one; of an even number the later of two.
    position = torch.where(is_drawn, torch.rand(count, 2, generator=generator), 0.5)
    return torch.cat([(position * (whole - chosen + 1)).long(), chosen], dim=1)


# Operations on a batch in which every image has its own parameters. Each applies torchvision's
# function of the same name to every image; tests compare the two. Values lie in [0, 1].


def _changed(
    images: Views, chosen: Bool[Tensor, " batch"], change: Callable[..., Views], *parameters: Factor
) -> Views:
    """Change the chosen images. A GPU changes all, with neutral parameters for the others."""
    if images.device.type != "cpu":
        return change(images, *parameters)
    rows = chosen.nonzero().squeeze(1)
    if len(rows):
        own = (values[rows] for values in parameters)
        images.index_copy_(0, rows, change(images.index_select(0, rows), *own))
    return images


def resized_crop(
    images: Views,
    boxes: Int[Tensor, "batch 4"],
    size: tuple[int, int],
    is_mirrored: Bool[Tensor, " batch"],
) -> Float[Tensor, "batch channels {size[0]} {size[1]}"]:
    """Cut a box out of each image, resize it to ``size`` and mirror it.

    Resizing is bilinear, with antialiasing if the box is larger than the result. Rows and columns
    are resized by a matrix product per image, so boxes may differ in size.
    """
    batch, channels, rows, columns = images.shape
    top, left, height, width = boxes.unbind(dim=1)
    down = _resize_matrix(top, height, rows, size[0])
    across = _resize_matrix(left, width, columns, size[1])
    across = torch.where(is_mirrored[:, None, None], across.flip(1), across)
    narrow = torch.bmm(images.reshape(batch, channels * rows, columns), across.transpose(1, 2))
    narrow = narrow.view(batch, channels, rows, size[1])
    return down[:, None] @ narrow


def _resize_matrix(
    start: Int[Tensor, " batch"], length: Int[Tensor, " batch"], old: int, new: int
) -> Float[Tensor, "batch {new} {old}"]:
    """Return the weight of each old pixel for each new one along one side."""
    scale = (length / new)[:, None, None]
    center = torch.arange(new, device=start.device)[None, :, None] + 0.5
    center = start[:, None, None] + center * scale
    pixel = torch.arange(old, device=start.device)[None, None, :]
    weight = 1 - (pixel + 0.5 - center).abs() / scale.clamp(min=1.0)
    inside = (pixel >= start[:, None, None]) & (pixel < (start + length)[:, None, None])
    weight = weight.clamp(min=0.0) * inside
    return weight / weight.sum(dim=2, keepdim=True)


def _gray(images: Views) -> Views:
    """Return the gray values of RGB images, or the images themselves."""
    return rgb_to_grayscale(images) if images.shape[1] == 3 else images


def _to_gray(images: Views, share: Factor) -> Views:
    """Blend each image with a share of its gray values."""
    return torch.lerp(images, _gray(images), share[:, None, None, None])


def _blend(images: Views, factor: Factor, gray: Factor, mean: Factor) -> Views:
    """Return ``factor`` times the images plus ``1 - factor`` times other images.

    The other image is black (brightness), the gray image (saturation: ``gray`` is 1) or the mean
    gray value (contrast: ``mean`` is 1).
    """
    factor, gray, mean = (values[:, None, None, None] for values in (factor, gray, mean))
    grays = _gray(images)
    other = grays * gray + grays.mean(dim=(1, 2, 3), keepdim=True) * mean
    return torch.lerp(other.expand_as(images), images, factor).clamp_(0.0, 1.0)


def adjust_hue(images: Views, factor: Factor) -> Views:
    """Rotate the hue of RGB images by a number of turns."""
    red, green, blue = images.unbind(dim=1)
    value, low = images.amax(dim=1), images.amin(dim=1)
    chroma = value - low
    # Where there is no color, all differences are 0, and so are the turns.
    inverse = chroma.clamp(min=torch.finfo(chroma.dtype).tiny).mul_(6).reciprocal_()
    at_green, at_blue = (blue - red) * inverse + 1 / 3, (red - green) * inverse + 2 / 3
    turns = torch.where(value == green, at_green, at_blue)
    turns = torch.where(value == red, (green - blue) * inverse, turns).add_(factor[:, None, None])
    # A channel is highest for a third of the wheel, lowest for another third, and linear in
    # between. The three channels differ by an offset.
    begin = torch.arange(5, 0, -2, device=images.device) / 6
    hue = turns[:, None] + begin[:, None, None]
    hue = hue.sub_(hue.floor()).mul_(6)
    share = torch.minimum(hue, 4 - hue).clamp_(0.0, 1.0)
    changed = value[:, None] - share.mul_(chroma[:, None])
    return torch.where(factor[:, None, None, None] != 0, changed, images)


def _blur(images: Views, side: Factor) -> Views:
    """Blur in both directions with weights proportional to ``side``, 1 and ``side``."""
    if min(images.shape[2:]) < 2:
        return images
    side = side[:, None, None, None]
    middle = 1 / (1 + 2 * side)
    side = side * middle
    for dim, padding in ((3, (1, 1, 0, 0)), (2, (0, 0, 1, 1))):
        padded, length = F.pad(images, padding, mode="reflect"), images.shape[dim]
        neighbors = padded.narrow(dim, 0, length) + padded.narrow(dim, 2, length)
        images = neighbors.mul_(side).addcmul_(images, middle)
    return images

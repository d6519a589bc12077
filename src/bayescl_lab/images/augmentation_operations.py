"""Image operations on a batch in which every image has its own parameters.

Each applies torchvision's function of the same name to every image; tests compare the two. Values
lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from kornia.filters import gaussian_blur2d

from bayescl.axes import Bool, Float, Int, Tensor

Images = Float[Tensor, "batch channels height width"]
Factor = Float[Tensor, " batch"]
Operation = Callable[[Images, Factor], Images]

_GREY = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue in a grey value."""


def resized_crop(
    images: Images,
    top: Int[Tensor, " batch"],
    left: Int[Tensor, " batch"],
    height: Int[Tensor, " batch"],
    width: Int[Tensor, " batch"],
    size: tuple[int, int],
    is_mirrored: Bool[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch channels {size[0]} {size[1]}"]:
    """Cut a box out of each image, resize it and mirror it.

    Resizing is bilinear, with antialiasing if the box is larger than the result. Each direction is
    a product with a matrix per image, so boxes may differ in size.

    Args:
        images: the images.
        top: first row of each box.
        left: first column of each box.
        height: rows of each box.
        width: columns of each box.
        size: height and width of the result.
        is_mirrored: True for images to mirror; default: none.
    """
    batch, channels, rows, columns = images.shape
    down = _resize_matrix(top, height, rows, size[0])
    across = _resize_matrix(left, width, columns, size[1])
    if is_mirrored is not None:
        across = torch.where(is_mirrored[:, None, None], across.flip(1), across)
    narrow = torch.bmm(images.reshape(batch, channels * rows, columns), across.transpose(1, 2))
    narrow = narrow.view(batch, channels, rows, size[1])
    return down[:, None] @ narrow


def _resize_matrix(
    start: Int[Tensor, " batch"], length: Int[Tensor, " batch"], old: int, new: int
) -> Float[Tensor, "batch {new} {old}"]:
    """Contribution of each old pixel along one side to each new one."""
    scale = (length / new)[:, None, None]
    centre = torch.arange(new, device=start.device)[None, :, None] + 0.5
    centre = start[:, None, None] + centre * scale
    pixel = torch.arange(old, device=start.device)[None, None, :]
    weight = 1 - (pixel + 0.5 - centre).abs() / scale.clamp(min=1.0)
    inside = (pixel >= start[:, None, None]) & (pixel < (start + length)[:, None, None])
    weight = weight.clamp(min=0.0) * inside
    return weight / weight.sum(dim=2, keepdim=True)


def adjust_brightness(images: Images, factor: Factor) -> Images:
    """Multiply pixel values by a factor."""
    return (images * _each(factor)).clamp_(0.0, 1.0)


def adjust_contrast(images: Images, factor: Factor) -> Images:
    """Move pixel values away from the image's mean grey value, or towards it."""
    grey = _grey_values(images) if images.shape[1] == 3 else images
    return _blend(images, grey.mean(dim=(1, 2, 3), keepdim=True), factor)


def adjust_saturation(images: Images, factor: Factor) -> Images:
    """Move the colours of RGB images away from their grey value, or towards it."""
    return _blend(images, _grey_values(images), factor)


def adjust_hue(images: Images, factor: Factor) -> Images:
    """Rotate the hue of RGB images by a number of turns."""
    red, green, blue = images.unbind(dim=1)
    value, low = images.amax(dim=1), images.amin(dim=1)
    chroma = value - low
    inverse = torch.where(chroma > 0, chroma, torch.ones_like(chroma)).mul_(6).reciprocal_()
    turns = torch.where(
        value == red,
        (green - blue) * inverse,
        torch.where(
            value == green, (blue - red) * inverse + 1 / 3, (red - green) * inverse + 2 / 3
        ),
    )
    turns = turns.add_(factor[:, None, None])
    # A channel is at its highest for a third of the wheel, at its lowest for another, and in
    # between goes linearly; the three differ in where on the wheel that begins.
    out = torch.empty_like(images)
    for channel, begin in enumerate((5 / 6, 3 / 6, 1 / 6)):
        place = turns + begin
        place = place.sub_(place.floor()).mul_(6)
        share = torch.minimum(place, 4 - place).clamp_(0.0, 1.0)
        torch.sub(value, chroma * share, out=out[:, channel])
    return out


def to_grey(images: Images) -> Images:
    """Replace the colours of RGB images by their grey value."""
    return _grey_values(images).expand(-1, 3, -1, -1)


def gaussian_blur(images: Images, sigma: Factor) -> Images:
    """Blur with a kernel of 3 by 3 pixels; images one pixel high or wide are unchanged."""
    if min(images.shape[2:]) < 2:
        return images
    return gaussian_blur2d(images, (3, 3), sigma[:, None].expand(-1, 2), separable=False)


def apply_where(
    images: Images, chosen: Bool[Tensor, " batch"], change: Operation, factor: Factor
) -> None:
    """Change some images in place.

    Args:
        images: the images, changed in place.
        chosen: which of them to change, on the CPU, so that nothing waits for a GPU.
        change: function of the images and their factors.
        factor: one number per image, on the device of the images.
    """
    rows = chosen.nonzero().squeeze(1)
    if len(rows):
        rows = rows.to(images.device, non_blocking=True)
        images.index_copy_(0, rows, change(images.index_select(0, rows), factor[rows]))


def _grey_values(images: Images) -> Float[Tensor, "batch 1 height width"]:
    """The grey value of every pixel."""
    red, green, blue = images.unbind(dim=1)
    return (_GREY[0] * red).add_(green, alpha=_GREY[1]).add_(blue, alpha=_GREY[2])[:, None]


def _blend(images: Images, other: Tensor, factor: Factor) -> Images:
    """``factor`` times the images plus ``1 - factor`` times the other."""
    return torch.lerp(other.expand_as(images), images, _each(factor)).clamp_(0.0, 1.0)


def _each(factor: Factor) -> Float[Tensor, "batch 1 1 1"]:
    """One number per image, beside its pixels."""
    return factor[:, None, None, None]

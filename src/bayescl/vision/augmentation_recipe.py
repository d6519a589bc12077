"""Views of photographs: the recipe of SimCLR, on a whole batch at once."""

from __future__ import annotations

import torch
from jaxtyping import UInt8
from torch import nn

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count, check_interval
from bayescl.vision.augmentation_operations import (
    Operation,
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    apply_where,
    gaussian_blur,
    resized_crop,
    to_grey,
)
from bayescl.vision.augmentation_parameters import ViewParameters, draw_view_parameters

_JITTER: tuple[Operation, ...] = (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_hue,
)


class SimCLRAugmentation(nn.Module):
    """Views for photographs: crop, mirror, colour jitter, grey and blur.

    Every image draws its own parameters. In this order: a crop of 8 % to 100 % of the area,
    resized; left and right exchanged (half of the images); brightness, contrast, saturation and
    hue changed by up to 0.4, 0.4, 0.4 and 0.1, in an order of its own (80 %); colours taken away
    (20 %); a blur of 3 by 3 pixels with a deviation of 0.1 to 2 (half). Images that are not RGB
    have no saturation or hue to change.

    Args:
        strength: 1 is the recipe; see
            :func:`~bayescl.vision.augmentation_parameters.draw_view_parameters`, in [0, 5].
        size: side of the views in pixels; that of the images unless given.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
        ICML 2020; with the blur of Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.
    """

    def __init__(self, strength: float = 1.0, size: int | None = None) -> None:
        super().__init__()
        self.strength = check_interval("strength", strength, 0.0, 5.0)
        self.size = None if size is None else check_count("size", size, 1)

    def forward(
        self, images: UInt8[Tensor, "batch channels height width"], *, seed: int
    ) -> Float[Tensor, "batch channels size size"]:
        """Draw one view of each image.

        Args:
            images: pixel values, 0 to 255.
            seed: fixes the draw; the same seed gives the same views.

        Returns:
            Views with values in [0, 1].
        """
        batch, _, height, width = images.shape
        parameters = draw_view_parameters(
            batch,
            height,
            width,
            strength=self.strength,
            generator=torch.Generator().manual_seed(seed),
        )
        return self.apply_parameters(images, parameters)

    @torch.no_grad()
    def apply_parameters(
        self, images: UInt8[Tensor, "batch channels height width"], parameters: ViewParameters
    ) -> Float[Tensor, "batch channels size size"]:
        """The views that some parameters stand for."""
        device = images.device
        height, width = images.shape[2:]
        size = (height, width) if self.size is None else (self.size, self.size)
        top, left, box_height, box_width = (
            part.to(device, non_blocking=True) for part in parameters[:4]
        )
        jitter = parameters.jitter.to(device, non_blocking=True)
        sigma = parameters.sigma.to(device, non_blocking=True)
        # bfloat16 would leave pixels 8 bits in the products, and fewer after the jitter.
        with torch.autocast(device.type, enabled=False):
            mirrored = parameters.is_mirrored.to(device, non_blocking=True)
            views = resized_crop(
                images.float() / 255, top, left, box_height, box_width, size, mirrored
            )
            colours = images.shape[1] == 3
            for step in range(4):
                kind = parameters.jitter_order[:, step]
                for number, change in enumerate(_JITTER if colours else _JITTER[:2]):
                    chosen = parameters.is_jittered & (kind == number)
                    apply_where(views, chosen, change, jitter[:, number])
            if colours:
                apply_where(views, parameters.is_grey, lambda part, _: to_grey(part), sigma)
            apply_where(views, parameters.is_blurred, gaussian_blur, sigma)
        return views

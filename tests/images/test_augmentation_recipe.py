"""Every step of the recipe does to each image of a batch what torchvision does to that image."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms.v2 import functional as reference

from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation, draw_view_parameters

BATCH = 64


def drawn(count: int = BATCH, size: tuple[int, int] = (32, 32), seed: int = 0, **others):
    return draw_view_parameters(count, *size, seed=seed, **others)


def photographs(count: int = BATCH, channels: int = 3, size: tuple[int, int] = (32, 32)):
    generator = torch.Generator().manual_seed(7)
    images = torch.randint(0, 256, (count, channels, *size), generator=generator)
    images[: count // 8, :] = images[: count // 8, :1]  # some without color
    return images.to(torch.uint8)


def one_at_a_time(images: torch.Tensor, parameters, size: tuple[int, int]) -> torch.Tensor:
    """The recipe, image by image, by torchvision's functions."""
    names = ("brightness", "contrast", "saturation", "hue")
    jitter = [getattr(reference, f"adjust_{name}") for name in names]
    views = []
    for row, image in enumerate(images.float() / 255):
        box = parameters.boxes[row].tolist()
        view = reference.resized_crop(
            image, *box, list(size), InterpolationMode.BILINEAR, antialias=True
        )
        if parameters.is_mirrored[row]:
            view = reference.horizontal_flip(view)
        if parameters.is_jittered[row]:
            for number in parameters.jitter_order[row].tolist():
                if number < 2 or len(image) == 3:
                    view = jitter[number](view, float(parameters.jitter[row, number]))
        if parameters.is_gray[row]:
            view = reference.rgb_to_grayscale(view, num_output_channels=len(image))
        if parameters.is_blurred[row]:
            view = reference.gaussian_blur(view, [3, 3], [float(parameters.sigma[row])])
        views.append(view)
    return torch.stack(views)


@pytest.mark.parametrize(
    ("channels", "size", "to"),
    [(3, (32, 32), None), (1, (28, 28), None), (3, (48, 40), None), (3, (96, 96), 32)],
)
def test_views_are_those_of_torchvision_one_image_at_a_time(channels, size, to):
    images, parameters = photographs(channels=channels, size=size), drawn(size=size, strength=2.0)
    images[0], images[1] = 0, 255
    views = SimCLRAugmentation(size=to).apply_parameters(images, parameters)
    expected = one_at_a_time(images, parameters, size if to is None else (to, to))
    torch.testing.assert_close(views, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("channels", "size", "to"), [(3, (32, 32), None), (1, (28, 28), 12), (2, (1, 9), None)]
)
def test_views_of_fixed_shape_are_the_views(channels, size, to):
    images, augmentation = photographs(channels=channels, size=size), SimCLRAugmentation(1.5, to)
    rows = augmentation.parameter_rows(images, [4, 5])
    views = augmentation.apply_rows(images, rows)
    expected = augmentation.views(images, [4, 5])
    assert not torch.equal(*expected)
    torch.testing.assert_close(views, expected, atol=1e-6, rtol=0)


def test_views_on_a_gpu_read_nothing_back():
    with FakeTensorMode():  # raises where the host would have to know a value
        images = torch.zeros(8, 3, 32, 32, dtype=torch.uint8, device="cuda")
        for view in SimCLRAugmentation().views(images, [4, 5]):
            assert (view.shape, view.device.type) == (images.shape, "cuda")


def test_no_two_images_of_a_batch_share_parameters():
    parameters = drawn(256, (224, 224))
    assert len(parameters.sigma.unique()) == 256
    for column in parameters.jitter.unbind(dim=1):
        assert len(column.unique()) > 250  # of 2^24 float32 values, a few may coincide
    assert len(parameters.boxes.unique(dim=0)) == 256
    same = photographs(1, size=(32, 32)).expand(64, -1, -1, -1)
    views = SimCLRAugmentation()(same, seed=0).flatten(1)
    distance = torch.cdist(views, views, p=torch.inf).fill_diagonal_(1.0)
    assert distance.min() > 0.01


def test_shares_and_ranges_are_those_of_the_recipe():
    parameters = drawn(20_000)
    shares = {"is_mirrored": 0.5, "is_jittered": 0.8, "is_gray": 0.2, "is_blurred": 0.5}
    for name, share in shares.items():
        # five standard errors
        error = 5 * math.sqrt(share * (1 - share) / 20_000)
        assert getattr(parameters, name).double().mean() == pytest.approx(share, abs=error)
    center, reach = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([0.4, 0.4, 0.4, 0.1])
    for found, expected in (
        (parameters.jitter.amin(dim=0), center - reach),
        (parameters.jitter.amax(dim=0), center + reach),
    ):
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
    assert parameters.sigma.aminmax() == pytest.approx((0.1, 2.0), abs=1e-3)
    orders = parameters.jitter_order @ torch.tensor([64, 16, 4, 1])
    _, counts = orders.unique(return_counts=True)
    assert len(counts) == 24
    assert counts.min() > 20_000 / 24 - 5 * math.sqrt(20_000 / 24)


def test_crops_are_distributed_as_those_of_torchvision():
    size, count = (24, 32), 6000
    parameters = drawn(count, size)
    torch.manual_seed(0)
    image = torch.empty(1, *size)
    boxes = torch.tensor(
        [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
    ).double()
    ours = parameters.boxes.double()
    error = (ours.var(dim=0) + boxes.var(dim=0)).div(count).sqrt()
    assert ((ours.mean(dim=0) - boxes.mean(dim=0)).abs() < 4 * error).all()
    torch.testing.assert_close(ours.std(dim=0), boxes.std(dim=0), rtol=0.05, atol=0)


@pytest.mark.parametrize("size", [(4, 40), (40, 4)])
def test_where_no_crop_fits_the_middle_is_taken(size):
    parameters = drawn(32, size, strength=0.0)
    boxes = parameters.boxes.unique(dim=0).tolist()
    box = RandomResizedCrop.get_params(torch.empty(1, *size), [1.0, 1.0], [3 / 4, 4 / 3])
    top, left, height, width = boxes[0]
    assert len(boxes) == 1
    assert (height, width) == (box[2], box[3])
    assert abs(top - box[0]) + abs(left - box[1]) <= 1  # of two middles either will do


def test_strength_scales_jitter_and_the_smallest_crop():
    weak, full, strong = (drawn(4000, (96, 96), strength=s) for s in (0.5, 1.0, 2.0))
    center = torch.tensor([1.0, 1.0, 1.0, 0.0])
    torch.testing.assert_close(weak.jitter - center, (full.jitter - center) / 2)
    torch.testing.assert_close(strong.jitter - center, (full.jitter - center) * 2)
    areas = [drawing.boxes[:, 2:].prod(dim=1).min() / 96**2 for drawing in (weak, full, strong)]
    assert areas == pytest.approx([0.08**0.5, 0.08, 0.08**2], rel=0.15)
    still = drawn(50, (33, 33), strength=0.0)
    assert torch.equal(still.jitter, center.expand(50, 4))
    assert (still.boxes[:, 2:] == 33).all()


@pytest.mark.parametrize(
    ("channels", "size"), [(1, (32, 32)), (2, (1, 9)), (3, (1, 1)), (4, (2, 2)), (3, (32, 32))]
)
def test_views_stay_within_the_range_of_pixels_whatever_the_channels_and_size(channels, size):
    views = SimCLRAugmentation(3.0)(photographs(channels=channels, size=size), seed=0)
    assert views.shape == (BATCH, channels, *size)
    assert views.min() >= 0.0
    assert views.max() <= 1.0 + 1e-6


def test_autocast_does_not_coarsen_the_pixels():
    images, augmentation = photographs(), SimCLRAugmentation()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        views = augmentation(images, seed=0)
    assert torch.equal(views, augmentation(images, seed=0))

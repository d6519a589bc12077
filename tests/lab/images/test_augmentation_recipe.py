"""Every step of the recipe does to each image of a batch what torchvision does to that image."""

import math

import pytest
import torch
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms.v2 import functional as reference

from bayescl_lab.images import augmentation_recipe
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation, draw_parameters

BATCH = 64
NAMES = ("brightness", "contrast", "saturation", "hue")


def drawn(count=BATCH, size=(32, 32), channels=3, **others) -> torch.Tensor:
    return draw_parameters(count, channels, *size, **{"seed": 0, **others})


def jitter_of(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Kind of each step of the color jitter, by its place in NAMES, and its factor or turns.

    A step that changes nothing counts as brightness.
    """
    factor, gray, mean, turns = rows[:, 5:21].unflatten(1, (4, 4)).unbind(dim=2)
    kinds = (mean + 2 * gray + 3 * (turns != 0)).long()
    return kinds, torch.where(kinds == 3, turns, factor)


def sigma_of(rows: torch.Tensor) -> torch.Tensor:
    """Standard deviation of the blur, 0 without one."""
    return (-0.5 / rows[:, 22].log()).sqrt()


def photographs(count: int = BATCH, channels: int = 3, size: tuple[int, int] = (32, 32)):
    generator = torch.Generator().manual_seed(7)
    images = torch.randint(0, 256, (count, channels, *size), generator=generator)
    images[: count // 8, :] = images[: count // 8, :1]  # some without color
    return images.to(torch.uint8)


def one_at_a_time(images: torch.Tensor, rows: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """The recipe, image by image, by torchvision's functions."""
    jitter = [getattr(reference, f"adjust_{name}") for name in NAMES]
    views = []
    kinds, values = jitter_of(rows)
    for number, image in enumerate(images.float() / 255):
        box = rows[number, :4].int().tolist()
        view = reference.resized_crop(
            image, *box, list(size), InterpolationMode.BILINEAR, antialias=True
        )
        if rows[number, 4]:
            view = reference.horizontal_flip(view)
        for kind, value in zip(kinds[number].tolist(), values[number].tolist(), strict=True):
            if kind or value != 1:
                view = jitter[kind](view, value)
        if rows[number, 21]:
            view = reference.rgb_to_grayscale(view, num_output_channels=len(image))
        if rows[number, 22]:
            view = reference.gaussian_blur(view, [3, 3], [float(sigma_of(rows)[number])])
        views.append(view)
    return torch.stack(views)


@pytest.mark.parametrize(
    ("channels", "size", "to"),
    [
        (3, (32, 32), None),
        (1, (28, 28), None),
        (3, (48, 40), None),
        (3, (96, 96), 32),
    ],
)
def test_views_are_those_of_torchvision_one_image_at_a_time(channels, size, to, monkeypatch):
    images = photographs(channels=channels, size=size)
    images[0], images[1] = 0, 255
    augmentation = SimCLRAugmentation(2.0, to)
    rows = augmentation.parameter_rows(images, [4, 5])
    views = augmentation.apply_rows(images, rows)
    expected = one_at_a_time(images.repeat(2, 1, 1, 1), rows, size if to is None else (to, to))
    torch.testing.assert_close(torch.cat(views), expected, atol=2e-5, rtol=0)
    assert not torch.equal(*views)
    # A GPU changes all images with neutral parameters.
    monkeypatch.setattr(
        augmentation_recipe, "_changed", lambda images, _, change, *p: change(images, *p)
    )
    everywhere = augmentation.apply_rows(images, rows)
    torch.testing.assert_close(everywhere, views, atol=1e-6, rtol=0)


def test_no_two_images_of_a_batch_share_parameters():
    assert len(drawn(256, (224, 224)).unique(dim=0)) == 256
    same = photographs(1, size=(32, 32)).expand(64, -1, -1, -1)
    views = SimCLRAugmentation()(same, seed=0).flatten(1)
    distance = torch.cdist(views, views, p=torch.inf).fill_diagonal_(1.0)
    assert distance.min() > 0.01


def test_shares_and_ranges_are_those_of_the_recipe():
    rows = drawn(20_000)
    kinds, values = jitter_of(rows)
    is_jittered, sigma = kinds.sum(dim=1) == 6, sigma_of(rows)
    shares = ((rows[:, 4], 0.5), (is_jittered, 0.8), (rows[:, 21], 0.2), (sigma > 0, 0.5))
    for chosen, share in shares:
        error = 5 * math.sqrt(share * (1 - share) / 20_000)  # five standard errors
        assert chosen.double().mean() == pytest.approx(share, abs=error)
    for kind, reach in enumerate((0.4, 0.4, 0.4, 0.1)):
        center, found = float(kind < 3), values[is_jittered][kinds[is_jittered] == kind]
        assert found.aminmax() == pytest.approx((center - reach, center + reach), abs=1e-3)
    assert sigma[sigma > 0].aminmax() == pytest.approx((0.1, 2.0), abs=5e-3)
    _, counts = kinds[is_jittered].unique(dim=0, return_counts=True)
    assert len(counts) == 24
    assert counts.min() > 16_000 / 24 - 5 * math.sqrt(16_000 / 24)


def test_crops_are_distributed_as_those_of_torchvision():
    size, count = (24, 32), 6000
    torch.manual_seed(0)
    image = torch.empty(1, *size)
    boxes = torch.tensor(
        [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
    ).double()
    ours = drawn(count, size)[:, :4].double()
    error = (ours.var(dim=0) + boxes.var(dim=0)).div(count).sqrt()
    assert ((ours.mean(dim=0) - boxes.mean(dim=0)).abs() < 4 * error).all()
    torch.testing.assert_close(ours.std(dim=0), boxes.std(dim=0), rtol=0.05, atol=0)


@pytest.mark.parametrize("size", [(4, 40), (40, 4)])
def test_where_no_crop_fits_the_middle_is_taken(size):
    boxes = drawn(32, size, strength=0.0)[:, :4].unique(dim=0).tolist()
    box = RandomResizedCrop.get_params(torch.empty(1, *size), [1.0, 1.0], [3 / 4, 4 / 3])
    top, left, height, width = boxes[0]
    assert len(boxes) == 1
    assert (height, width) == (box[2], box[3])
    assert abs(top - box[0]) + abs(left - box[1]) <= 1  # of two middles either will do


def test_strength_scales_jitter_and_the_smallest_crop():
    weak, full, strong = (drawn(4000, (96, 96), strength=it) for it in (0.5, 1.0, 2.0))
    changes = [rows[:, 5:21:4] - 1 for rows in (weak, full, strong)]
    torch.testing.assert_close(changes[0], changes[1] / 2)
    torch.testing.assert_close(changes[2], changes[1] * 2)
    torch.testing.assert_close(strong[:, 8:21:4], full[:, 8:21:4] * 2)
    areas = [rows[:, 2:4].prod(dim=1).min().item() / 96**2 for rows in (weak, full, strong)]
    assert areas == pytest.approx([0.08**0.5, 0.08, 0.08**2], rel=0.15)
    still = drawn(50, (33, 33), strength=0.0)
    assert (still[:, 2:4] == 33).all()
    assert (still[:, 5:21:4] == 1).all()
    assert (still[:, 8:21:4] == 0).all()


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

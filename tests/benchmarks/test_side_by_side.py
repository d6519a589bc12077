"""Programs that benchmarks time beside ours do the same work, or at least train."""

from __future__ import annotations

import image_loader
import pytest
import torch
from lightgcn_epoch import our_step, published_step
from recsys import random_interactions


def test_generated_images_are_the_same_each_time_and_so_are_both_programs_pixels(
    tmp_path, monkeypatch
):
    for place in ("one", "other"):
        image_loader.write_images(tmp_path / place, 64)
    files, others = (sorted((tmp_path / place).rglob("*.jpg")) for place in ("one", "other"))
    assert len(files) == 64
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in others]
    assert image_loader.same_pixels(tmp_path / "one")
    monkeypatch.setattr(image_loader, "BATCH", 32)
    for program in image_loader.PROGRAMS.values():
        batches = [images for images, *_ in program(tmp_path / "one", 0)]
        assert [images.shape for images in batches] == [torch.Size((32, 3, 224, 224))] * 2


@pytest.mark.parametrize("step_of", [our_step, published_step])
def test_a_program_of_lightgcn_trains_for_a_few_steps(step_of):
    step = step_of(random_interactions(users=30, items=40, pairs=200))
    for _ in range(3):
        step()

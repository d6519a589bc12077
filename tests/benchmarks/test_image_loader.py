"""The two programs of the loader's benchmark do the same work."""

from __future__ import annotations

import image_loader
import torch


def test_generated_images_are_the_same_each_time_and_both_programs_make_the_same_pixels(tmp_path):
    for place in ("one", "other"):
        image_loader.write_images(tmp_path / place, 64)
    files, others = (sorted((tmp_path / place).rglob("*.jpg")) for place in ("one", "other"))
    assert len(files) == 64
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in others]
    assert image_loader.same_pixels(tmp_path / "one")


def test_both_programs_give_batches_of_one_shape(tmp_path, monkeypatch):
    image_loader.write_images(tmp_path / "photos", 24)
    monkeypatch.setattr(image_loader, "BATCH", 8)
    for program in image_loader.PROGRAMS.values():
        batches = [images for images, *_ in program(tmp_path / "photos", 0)]
        assert [images.shape for images in batches] == [torch.Size((8, 3, 224, 224))] * 3

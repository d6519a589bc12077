"""Streamed images: the pixels of the store in memory, decoded by however many workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bayescl_lab.images import decoding, streaming
from bayescl_lab.images import folder as folder_module
from bayescl_lab.images.augmentation import Normalization
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.folder import load_folder
from bayescl_lab.images.pixel_files import cache_folder
from bayescl_lab.images.streaming import decoding_workers

# Python 3.12 and later warn of forks, which PyTorch's loader makes by default as well.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def photos(tmp_path) -> Path:
    """JPEGs of several sizes and a grey PNG, in two classes and two parts; one file is no image."""
    generator = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for part, count in (("train", 11), ("test", 4)):
        for kind in ("ant", "bee"):
            place = folder / part / kind
            place.mkdir(parents=True)
            for number in range(count):
                height, width = 20 + number, 24 + 3 * number
                pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{number:02}.jpg")
    Image.fromarray(pixels[..., 0]).save(folder / "train/bee/grey.png")
    (folder / "train/ant/03.jpg").write_bytes(b"no image")
    return folder


def both(folder: Path, workers: int = 0):
    """The folder's parts in memory and as streams."""
    return (
        load_images(str(folder), image_size=16, loader=loader, loader_workers=workers)
        for loader in ("memory", "stream")
    )


def test_streamed_images_have_the_pixels_labels_ids_and_remarks_of_those_in_memory(photos):
    memory, stream = both(photos)
    assert stream.remarks == memory.remarks
    assert "1 of 31 files left out" in stream.remarks[0]
    for part, other in ((memory.train, stream.train), (memory.evaluation, stream.evaluation)):
        assert other.is_streamed
        assert not part.is_streamed
        assert other.image_shape == part.image_shape == (3, 16, 16)
        assert torch.equal(other.images, part.images)
        assert torch.equal(other.labels, part.labels)
        assert other.ids.tolist() == part.ids.tolist()
        assert other.class_names == part.class_names
        rows, inner = torch.tensor([7, 3, 3, 2]), torch.tensor([2, 0])
        few, others = (whole.subset(rows).subset(inner) for whole in (part, other))
        assert others.is_streamed
        assert torch.equal(others.images, few.images)
        assert torch.equal(others.take(torch.tensor([1])), few.take(torch.tensor([1])))


def test_a_pass_that_is_left_early_does_not_spoil_the_next_and_no_worker_stays(photos):
    memory, stream = (
        StoreBatches(parts.train, EpochOrder(len(parts.train), 5, 3)) for parts in both(photos, 2)
    )
    next(iter(stream))
    assert len(multiprocessing.active_children()) == 2
    expected = [batch.images for batch in memory]
    assert all(map(torch.equal, [batch.images for batch in stream], expected))
    del stream
    assert multiprocessing.active_children() == []


def test_normalisation_is_that_of_the_store_in_memory(photos, monkeypatch):
    memory, stream = both(photos)
    for values in (2**28, 5 * 3 * 16 * 16):  # all images, and five of them
        monkeypatch.setattr("bayescl_lab.images.augmentation.MEASURED_VALUES", values)
        one, other = (Normalization(parts.train) for parts in (memory, stream))
        assert torch.equal(one.mean, other.mean)
        assert torch.equal(one.deviation, other.deviation)
    five = memory.train.subset(torch.arange(5) * len(memory.train) // 5)
    assert torch.equal(one.mean, Normalization(five).mean)


@pytest.mark.parametrize("workers", [0, 2])
def test_damage_that_shows_while_decoding_is_an_error_in_one_line(photos, workers):
    victim = photos / "train/bee/04.jpg"
    victim.write_bytes(victim.read_bytes()[:700])
    train = load_images(str(photos), image_size=16, loader="stream", loader_workers=workers).train
    with pytest.raises(ValueError, match=rf"^cannot read {victim}: [^\n]+$"):
        list(StoreBatches(train, EpochOrder(len(train), len(train), 0)))
    with pytest.raises(ValueError, match=rf"^cannot read {victim}: [^\n]+$"):
        train.take(torch.arange(len(train)))


@pytest.mark.skipif(sys.platform != "linux", reason="workers must know what is patched")
def test_a_worker_that_is_killed_is_an_error_in_one_line(photos, monkeypatch):
    def killed(path, wanted):
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(decoding, "_decode", killed)
    train = load_images(str(photos), image_size=16, loader="stream", loader_workers=1).train
    with pytest.raises(ValueError, match=r"^a worker that decodes images died \([^\n]+$"):
        next(iter(StoreBatches(train, EpochOrder(len(train), 2, 0))))


def test_auto_streams_what_would_take_more_than_half_of_the_memory(photos, monkeypatch):
    size = 30 * 3 * 16 * 16  # of the readable images of both parts
    for memory, is_streamed in ((2 * size - 1, True), (2 * size, False)):
        monkeypatch.setattr(folder_module, "usable_memory", lambda memory=memory: memory)
        train, test, _ = load_folder(photos, image_size=16, workers=0)
        assert len(train) + len(test) == 30
        assert (train.is_streamed, test.is_streamed) == (is_streamed, is_streamed)
        assert not load_folder(photos, image_size=16, loader="memory")[0].is_streamed


def test_auto_streams_what_would_fill_the_disk_unless_it_is_there_already(photos, monkeypatch):
    usage = folder_module.shutil.disk_usage(photos)
    monkeypatch.setattr(folder_module, "CACHE_FROM", 10)
    with monkeypatch.context() as patch:
        patch.setattr(folder_module.shutil, "disk_usage", lambda _: usage._replace(free=40_000))
        assert load_folder(photos, image_size=16, workers=0)[0].is_streamed
        assert not any(cache_folder().glob("*"))
        patch.undo()
        assert not load_folder(photos, image_size=16)[0].is_streamed
        patch.setattr(folder_module.shutil, "disk_usage", lambda _: usage._replace(free=40_000))
        assert not load_folder(photos, image_size=16)[0].is_streamed


def test_by_default_processes_share_the_cores_and_one_is_left_over(monkeypatch):
    monkeypatch.setattr(streaming, "usable_cores", lambda: 8)
    assert [decoding_workers(count) for count in (1, 2, 4, 8)] == [7, 3, 1, 1]
    monkeypatch.setattr(streaming.multiprocessing, "parent_process", lambda: object())
    assert decoding_workers() == 1

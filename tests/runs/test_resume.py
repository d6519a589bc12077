"""A run killed at any point and resumed has the figures and weights of an unbroken one."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs.killed_run import train_until_killed

from bayescl.runs.checkpoints import AtomicCheckpointIO, read_checkpoint
from bayescl.runs.folder import RunFolder
from bayescl.runs.images.run import ImageRun, evaluate_images, train_images

STEPS_PER_EPOCH, EPOCHS = 6, 3
STEPS = STEPS_PER_EPOCH * EPOCHS
RANDOM_VIEWS = sorted(random.Random(6).sample(range(1, 2 * STEPS + 1), 4))
"""Two views are drawn per step: these are places all over the run, most within an epoch."""


@pytest.fixture
def run_settings(settings):
    return replace(settings, epochs=EPOCHS, batch_size=10, knn_every=2)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def figures(out: Path) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Every figure of a run but those of the clock."""
    folder = RunFolder(out, "train images")
    clock = {"seconds", "images_per_second"}
    rows = [
        {name: value for name, value in row.items() if name not in clock}
        for row in folder.read_metrics()
    ]
    return rows, folder.read_result()["probes"]


def assert_same_run(one: Path, other: Path) -> None:
    assert figures(one) == figures(other)
    first, second = (
        read_checkpoint(out / "checkpoints" / "last.ckpt")["state_dict"] for out in (one, other)
    )
    for name, value in first.items():
        same = torch.equal(value, second[name]) if torch.is_tensor(value) else value == second[name]
        assert same, name


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Unbroken runs, trained once for each settings."""
    done: dict[str, Path] = {}

    def find(settings) -> Path:
        key = str(settings.as_config() | {"data": ""})
        if key not in done:
            done[key] = tmp_path_factory.mktemp("unbroken") / "run"
            train_images(settings, done[key])
        return done[key]

    return find


@pytest.mark.parametrize(
    "point", [*(f"view {number}" for number in RANDOM_VIEWS), "checkpoint 3", "row 2"]
)
def test_a_run_killed_at_a_random_step_ends_like_the_unbroken_run(
    run_settings, unbroken, tmp_path, point
):
    out, options = tmp_path / "killed", {"checkpoint_every_steps": 4}
    assert train_until_killed(run_settings, out, options, point) == -signal.SIGKILL
    train_images(run_settings, out, resume=True, **options)
    assert_same_run(out, unbroken(run_settings))


def test_a_run_killed_twice_in_one_epoch_ends_like_the_unbroken_run(
    run_settings, unbroken, tmp_path
):
    out, options = tmp_path / "killed", {"checkpoint_every_steps": 2}
    for resume, point in ((False, "view 18"), (True, "view 5")):
        status = train_until_killed(run_settings, out, {**options, "resume": resume}, point)
        assert status == -signal.SIGKILL
    assert read_checkpoint(out / "checkpoints" / "last.ckpt")["global_step"] == 10
    assert evaluate_images(out)["epochs"] == 1  # whole ones
    train_images(run_settings, out, resume=True)
    assert_same_run(out, unbroken(run_settings))


def test_momentum_warm_up_and_gradient_cache_resume_within_an_epoch_too(
    run_settings, unbroken, tmp_path
):
    settings = replace(
        run_settings, optimizer="lars", lr=0.5, warmup_epochs=1, cache_chunk=4, joint_views=True
    )
    out, options = tmp_path / "killed", {"checkpoint_every_steps": 1}
    assert train_until_killed(settings, out, options, "view 20") == -signal.SIGKILL
    assert read_checkpoint(out / "checkpoints" / "last.ckpt")["global_step"] == 9
    train_images(settings, out, resume=True, **options)
    assert_same_run(out, unbroken(settings))


def fill_the_disk(monkeypatch, file: str, after: int) -> None:
    """Let a device that is always full take the place of a file, once it was written so often."""
    make, calls = tempfile.mkstemp, 0

    def full(*others, prefix, **named):
        nonlocal calls
        descriptor, name = make(*others, prefix=prefix, **named)
        calls += file in prefix
        if file in prefix and calls > after:
            os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", full)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "last.ckpt",
            r"^cannot write the checkpoint \S*/last.ckpt: No space left on device; the one before",
        ),
        ("metrics.csv", r"^cannot write \S*/metrics.csv: No space left on device$"),
    ],
)
def test_a_full_disk_leaves_what_was_there_before_and_says_so(
    run_settings, unbroken, tmp_path, monkeypatch, file, message
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        fill_the_disk(patch, file, after=1)
        with pytest.raises(OSError, match=message):
            train_images(run_settings, out)
    assert [file.name for file in (out / "checkpoints").iterdir()] == ["last.ckpt"]
    assert ImageRun(run_settings).load(out / "checkpoints" / "last.ckpt") == 1
    train_images(run_settings, out, resume=True)
    assert_same_run(out, unbroken(run_settings))


def test_a_writer_that_fails_halfway_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"state_dict": {}, "epoch": 1}, path)

    def failing(checkpoint, file):
        file.write(b"some bytes")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", failing)
    with pytest.raises(OSError, match="the one before is kept, and --resume continues from there"):
        AtomicCheckpointIO().save_checkpoint({"state_dict": {}, "epoch": 2}, path)
    monkeypatch.undo()
    assert read_checkpoint(path)["epoch"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]

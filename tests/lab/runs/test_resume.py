"""A run killed at any point and resumed has the figures and weights of an unbroken one."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from runs.killed_run import run_until_killed, train
from runs.same_run import assert_same_run, fill_the_disk, final_state

from bayescl_lab import load
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_run import ImageRun, train_images
from bayescl_lab.runs.ranking.ranking_run import train_ranking

EPOCHS, STEPS = 3, 18
RANDOM_VIEWS = sorted(random.Random(6).sample(range(1, 2 * STEPS + 1), 2))
"""Two views are drawn per step: these are places all over the run."""

pytestmark = pytest.mark.usefixtures("no_probes")


@pytest.fixture
def run_settings(settings):
    return replace(settings, epochs=EPOCHS, batch_size=10)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


OF_IMAGES = [*(f"view {number}" for number in RANDOM_VIEWS), "checkpoint 3", "row 2", "metrics 3"]
OF_RANKING = ["step 10", "checkpoint 2", "row 2", "metrics 3"]


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        *(("run_settings", point) for point in OF_IMAGES),
        *(("ranking_settings", point) for point in OF_RANKING),
    ],
)
def test_a_run_killed_at_any_point_ends_like_the_unbroken_run(
    request, trained, tmp_path, kind, point
):
    settings, out = request.getfixturevalue(kind), tmp_path / "killed"
    run_until_killed(point, train, settings, out)
    train(settings, out, resume=True)
    assert_same_run(out, trained(settings))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("file", ["last.ckpt", "metrics.csv"])
def test_a_full_disk_leaves_what_was_there_before_and_says_so(
    run_settings, trained, tmp_path, monkeypatch, file
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        fill_the_disk(patch, file, after=1)
        message = rf"^cannot write \S*/{file}: No space left on device$"
        with pytest.raises(OSError, match=message):
            train_images(run_settings, out)
    assert [file.name for file in (out / "checkpoints").iterdir()] == ["last.ckpt"]
    assert ImageRun(run_settings).load(RunFolder.find(out)) == 1
    train_images(run_settings, out, resume=True)
    assert_same_run(out, trained(run_settings))


def test_a_broken_run_goes_on_after_its_images_moved_and_remembers_where(
    run_settings, trained, tmp_path
):
    out = tmp_path / "killed"
    run_until_killed("view 20", train, run_settings, out)
    images = Path(run_settings.data)
    moved = tmp_path / "elsewhere" / images.name
    moved.parent.mkdir()
    content = images.read_bytes()
    images.rename(moved)
    with pytest.raises(ValueError, match=r"the data of the run are missing from .*--data"):
        train_images(run_settings, out, resume=True)
    other = tmp_path / "other.npz"
    with np.load(moved) as archive:
        np.savez(other, images=archive["images"][::-1], labels=archive["labels"])
    with pytest.raises(ValueError, match="images changed since training"):
        train_images(replace(run_settings, data=str(other)), out, resume=True)
    train_images(replace(run_settings, data=str(moved)), out, resume=True)
    assert ImageRun.evaluate_in(out).row.epochs == EPOCHS
    images.write_bytes(content)
    assert_same_run(out, trained(run_settings))


def test_training_starts_from_the_networks_of_another_run(run_settings, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    train_images(replace(run_settings, epochs=1), first)
    settings = replace(run_settings, epochs=1, lr=1e-12, init=str(first))
    result = train_images(settings, second)
    assert result.settings["init"] == str(first)
    before, after = final_state(first), final_state(second)
    names = [name for name in before if name.startswith(("encoder.", "projection_head."))]
    moved = [name for name in names if "running" not in name and "num_batches" not in name]
    assert len(moved) > 4
    for name in moved:
        torch.testing.assert_close(after[name], before[name], rtol=1e-4, atol=1e-6)


def test_a_recommender_starts_from_the_embeddings_it_knows_by_id(ranking_settings, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    train_ranking(ranking_settings, first)
    table = Path(ranking_settings.data.data)
    header, *lines = table.read_text().splitlines()
    grown = table.with_name("grown.csv")  # in another order, with a user and an item that are new
    grown.write_text("\n".join([header, "new,film 0,5", "new,fresh,5", *reversed(lines)]) + "\n")
    settings = replace(
        ranking_settings,
        data=replace(ranking_settings.data, data=str(grown), split="none"),
        epochs=1,
        lr=1e-12,
        init=str(first),
    )
    train_ranking(settings, second)
    before, after = (load(out) for out in (first, second))
    for of in ("users", "items"):
        old, new = (
            dict(zip(one["id"], one["embedding"].to_numpy(), strict=True))
            for one in (before.embeddings(of), after.embeddings(of))
        )
        assert set(old) < set(new)
        for one, embedding in old.items():
            np.testing.assert_allclose(new[one], embedding, atol=1e-5)
    with pytest.raises(ValueError, match=r"dim must be 8 as in .*, got 4"):
        train_ranking(replace(settings, dim=4), tmp_path / "third")

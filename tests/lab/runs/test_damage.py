"""A damaged, missing or exchanged file of a run is refused and named; none is used."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from runs.same_run import assert_same_run

from bayescl_lab import load
from bayescl_lab.runs.exporting import run_embeddings
from bayescl_lab.runs.folder import Kind, RunFolder, write_json
from bayescl_lab.runs.images.image_run import train_images
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.ranking.ranking_record import RankingRecord
from bayescl_lab.runs.ranking.ranking_run import RankingRun, train_ranking
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.weights import read_checkpoint

pytestmark = pytest.mark.usefixtures("no_probes")

FLIPS = int(os.environ.get("BAYESCL_FLIPS", "60"))
"""Number of damaged copies of each file."""
FILES = ("config.yaml", "data.json", "ARCHIVE", "checkpoints/last.ckpt", "result.json")


@pytest.fixture(params=Kind)
def run(request, settings, ranking_settings, trained, tmp_path) -> Path:
    """A copy of a finished run of each kind."""
    chosen = replace(settings, epochs=1) if request.param is Kind.IMAGES else ranking_settings
    return shutil.copytree(trained(chosen), tmp_path / "run")


def located(run: Path, name: str) -> Path:
    """The file of a run; its archive is named by its kind."""
    archive = "items.npz" if Kind.of(run) is Kind.IMAGES else "interactions.npz"
    return run / name.replace("ARCHIVE", archive)


def read_all(run: Path) -> None:
    """Read what commands read of a run."""
    folder = RunFolder.find(run)
    record = ItemRecord if Kind.of(run) is Kind.IMAGES else RankingRecord
    record.read(folder)
    read_checkpoint(folder)
    Result.read_all(folder.result_file, folder.identity)


def damaged(content: bytes) -> Iterator[bytes]:
    """The content with one flipped bit, with a block of zeros, cut, and empty."""
    dice = np.random.default_rng(len(content))
    for _ in range(FLIPS):
        changed = bytearray(content)
        changed[dice.integers(len(content))] ^= 1 << int(dice.integers(8))
        yield bytes(changed)
    at = int(dice.integers(len(content) - 200))
    yield content[:at] + bytes(200) + content[at + 200 :]
    yield content[: len(content) // 2]
    yield b""


@pytest.mark.parametrize("name", FILES)
def test_damage_in_any_file_of_a_run_is_refused_and_named(run, name):
    file = located(run, name)
    content = file.read_bytes()
    read_all(run)
    for changed in damaged(content):
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=file.name):
            read_all(run)


@pytest.mark.parametrize("name", FILES[1:])
def test_files_of_another_run_with_equal_settings_are_refused(
    ranking_settings, trained, tmp_path, name
):
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(trained(ranking_settings), run)
    train_ranking(ranking_settings, other)
    file = located(run, name)
    shutil.copy(located(other, name), file)
    with pytest.raises(ValueError, match=rf"{file.name} is damaged or of another run"):
        read_all(run)


def test_a_changed_table_does_not_replace_a_missing_record(ranking_settings, tmp_path):
    run = tmp_path / "run"
    train_ranking(ranking_settings, run)
    table = Path(ranking_settings.data.data)
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([header, *reversed(lines)]))
    (run / "data.json").unlink()
    (run / "result.json").unlink()
    resume = partial(train_ranking, ranking_settings, resume=True)
    for use in (load, run_embeddings, RankingRun.evaluate_in, resume):
        with pytest.raises(ValueError, match=r"no record of its data: .*data\.json is missing"):
            use(run)


@pytest.mark.parametrize("content", [None, b"epoch,lo\x00"])
def test_a_resumed_run_restores_its_metrics_from_the_checkpoint(
    settings, trained, tmp_path, content
):
    settings = replace(settings, epochs=1)
    run = shutil.copytree(trained(settings), tmp_path / "run")
    (run / "result.json").unlink()
    (run / "metrics.csv").unlink()
    if content is not None:
        (run / "metrics.csv").write_bytes(content)
    train_images(settings, run, resume=True)
    assert_same_run(run, trained(settings))


def test_weights_that_diverge_in_the_last_step_end_the_run(ranking_settings, tmp_path):
    one_step = replace(ranking_settings, epochs=1, batch_size=48, lr=1e39)
    with pytest.raises(ValueError, match=r"^the weights became infinite or NaN in epoch 1: lower"):
        train_ranking(one_step, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nan_never_gets_into_a_result(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "train images", {"loss": "hard"})
    with pytest.raises(ValueError, match="JSON"):
        write_json(folder.result_file, {"accuracy": float("nan")})
    assert not folder.result_file.exists()

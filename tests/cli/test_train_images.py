"""Options of ``bayescl train images`` beyond the plain run."""

from __future__ import annotations

import csv
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml


def test_every_kind_of_training_is_an_option(bayescl, bars):
    line = f"train images {bars} --epochs 2 --optimizer lars --lr 0.5 --warmup-epochs 1"
    outcome = bayescl(
        f"{line} --joint-views --cache-chunk 7 --precision bfloat16 --channels-last "
        "--knn-every 1 --augmentation simclr --strength 0.5 --hidden-dim 16 --out run"
    )
    assert outcome.status == 0, outcome.err
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (config["optimizer"], config["joint_views"], config["cache_chunk"]) == ("lars", True, 7)
    assert "knn" in Path("run/metrics.csv").read_text().splitlines()[0]


def test_a_resumed_run_may_save_more_often(bayescl, image_run):
    Path("run/result.json").unlink()
    line = "train images --out run --resume --checkpoint-every-steps 2 --checkpoint-every 5"
    assert bayescl(line).status == 0
    assert "checkpoint_every" not in Path("run/config.yaml").read_text()


def test_the_checkpoint_of_another_encoder_is_answered_with_one_line(bayescl, bars, image_run):
    bayescl(f"train images {bars.replace('--width 4', '--width 5')} --out other")
    shutil.copy("other/checkpoints/last.ckpt", "run/checkpoints/last.ckpt")
    Path("run/result.json").unlink()
    for line in ("train images --out run --resume", "evaluate run"):
        outcome = bayescl(line)
        assert outcome.status == 2
        assert "run/checkpoints/last.ckpt belongs to another model" in outcome.complaint


def test_loggers_get_every_row_of_the_metrics(bayescl, bars):
    with_tensorboard = find_spec("tensorboard") is not None
    names = "csv,tensorboard" if with_tensorboard else "csv"
    assert bayescl(f"train images {bars} --logger {names} --out run").status == 0
    tables = []
    for file in ("run/metrics.csv", "run/csv/metrics.csv"):
        with Path(file).open() as opened:
            tables.append([float(row["loss"]) for row in csv.DictReader(opened)])
    assert tables[1] == pytest.approx(tables[0])
    if with_tensorboard:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator("run/tensorboard").Reload().Scalars("loss")
        assert [event.value for event in events] == pytest.approx(tables[0])


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_logger_says_what_it_needs(bayescl, bars, name):
    if name == "tensorboard" and find_spec("tensorboardX"):
        pytest.skip("it is installed")
    if find_spec(name) is not None:
        pytest.skip("it is installed")
    outcome = bayescl(f"train images {bars} --logger {name} --out run")
    assert outcome.status == 2
    assert f"pip install {name}" in outcome.complaint
    assert not Path("run").exists()

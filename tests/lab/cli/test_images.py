"""The commands on images as a user meets them."""

import shutil
from pathlib import Path

import yaml
from PIL import Image

from bayescl_lab.runs.result import Result

QUICK = "train images --batch_size 16 --width 4 --epochs 1 --device cpu"


def test_train_leaves_a_complete_run_folder_and_a_resumed_run_shows_it_again(
    bayescl, bars, printed_config
):
    outcome = bayescl(f"train images {bars} --out run")
    for title in ("1 label/class", "5 labels/class", "k-NN", "linear", "seconds per epoch"):
        assert title in outcome.out
    stored = yaml.safe_load(Path("run/config.yaml").read_text())
    assert printed_config(f"train images {bars}") == stored
    files = {str(path.relative_to("run")) for path in Path("run").rglob("*") if path.is_file()}
    recorded = {"data.json", "items.npz"}
    trained = {"config.yaml", "metrics.csv", "result.json"}
    assert files == trained | recorded | {"checkpoints/last.ckpt"}
    assert len(Path("run/metrics.csv").read_text().splitlines()) == 1 + 3

    before = Path("run/checkpoints/last.ckpt").stat().st_mtime_ns
    again = bayescl("train images --out run --resume")
    assert again.out == outcome.out
    assert Path("run/checkpoints/last.ckpt").stat().st_mtime_ns == before
    assert "after 3 of 3 epochs" in bayescl("evaluate run").out
    written, trained = (
        Result.read_file(Path("run", file)) for file in ("evaluation.json", "result.json")
    )
    assert written.row.scores == trained.row.scores
    refused = bayescl("train images --out run --resume --lr 0.5")
    assert "a resumed run keeps its settings: lr = 0.001, got 0.5" in refused.complaint


def test_a_folder_without_classes_trains_and_is_never_judged(bayescl, pictures):
    pictures("photos", (".",))
    outcome = bayescl(f"{QUICK} --data photos --out run")
    note = "the images have no labels: they are used only for training"
    assert (outcome.out + outcome.err).count(note) == 1
    assert Result.read_file(Path("run/result.json")).measures == []
    refused = bayescl("evaluate run")
    assert refused.complaint == "photos: the images have no labels to evaluate with"


def test_few_large_photographs_are_trained_with_a_smaller_batch_and_a_hint(bayescl, tmp_path):
    for number in range(12):
        (tmp_path / f"photos/{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (160, 130), (9 * number, 0, 0)).save(f"photos/{number % 2}/{number}.png")
    line = "train images --data photos --width 4 --stride 2 --epochs 1 --device cpu --out run"
    outcome = bayescl(line)
    assert outcome.status == 0, outcome.err
    assert "batches have 4, half of the 8 training images" in outcome.err
    assert "the images have 160 x 130 pixels: training is faster with smaller ones" in outcome.err


def test_a_resumed_run_may_save_less_often(bayescl, image_run):
    Path("run/result.json").unlink()
    line = "train images --out run --resume --checkpoint-every 5"
    assert bayescl(line).status == 0
    assert "checkpoint_every" not in Path("run/config.yaml").read_text()


def test_the_checkpoint_of_another_encoder_is_answered_with_one_line(bayescl, bars, image_run):
    bayescl(f"train images {bars.replace('--width 4', '--width 5')} --out other")
    shutil.copy("other/checkpoints/last.ckpt", "run/checkpoints/last.ckpt")
    Path("run/result.json").unlink()
    for line in ("train images --out run --resume", "evaluate run"):
        assert "run/checkpoints/last.ckpt is damaged or of another run" in bayescl(line).complaint

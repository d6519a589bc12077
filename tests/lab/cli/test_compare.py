"""Comparisons of losses as a user meets them."""

import json
from pathlib import Path

import pytest
import yaml

LINE = "compare images --seeds 1 --workers 1 --device cpu --batch_size 16 --width 4 --epochs 1"


def test_compare_writes_figures_and_picture_(bayescl, bars, printed_config):
    line = f"compare images {bars} --losses info_nce,hard,oracle --seeds 2 --workers 1"
    outcome = bayescl(f"{line} --tau_plus 0.25 --out comparison")
    for text in ("InfoNCE", "hard", "oracle", "standard deviation"):
        assert text in outcome.out
    assert "\nNext: " in outcome.out
    stored = yaml.safe_load(Path("comparison/config.yaml").read_text())
    assert printed_config(f"{line} --tau_plus 0.25") == stored
    result = json.loads(Path("comparison/result.json").read_text())
    assert len(list(Path("comparison/runs").iterdir())) == 6
    assert {"command", "versions", "hardware", "commit", "settings"} <= result.keys()
    assert result["losses"]["hard"]["settings"]["tau_plus"] == 0.25
    assert "tau_plus" not in result["losses"]["info_nce"]["settings"]
    assert Path("comparison/comparison.png").stat().st_size > 10_000
    assert bayescl("evaluate comparison/runs/oracle-seed1").status == 0

    for same in ("", " --tau-plus 0.25"):
        again = bayescl(f"compare images --out comparison --resume{same}")
        assert again.out == outcome.out
    refused = bayescl("compare images --out comparison --resume --temperature 0.7")
    assert "keeps its settings: methods.hard.temperature = 0.5, got 0.7" in refused.complaint
    refused = bayescl("compare images --out comparison --resume --tune 3")
    assert "a resumed run keeps its settings: tune = 0, got 3" in refused.complaint


@pytest.mark.parametrize(
    ("train", "compare"),
    [
        ("", "--losses info_nce+teacher"),
        ("--loss bayesian", "--losses bayesian"),
        ("--loss bayesian --teacher items", "--losses bayesian --teacher items"),
        ("--loss hard+teacher --tau-plus 0.3", "--losses hard+teacher --tau-plus 0.3"),
        ("--loss oracle --labels-per-class 3", "--losses oracle --labels-per-class 3"),
    ],
)
def test_the_same_words_give_the_same_run_in_train_and_compare(train, compare, printed_config):
    run = printed_config(f"train images {train}")
    comparison = printed_config(f"compare images {compare}")
    (values,) = comparison["methods"].values()
    assert run.items() >= values.items()
    for name in run.keys() & comparison.keys() - values.keys():
        assert run[name] == comparison[name], name


def test_the_default_run_on_images_is_info_nce_with_a_teacher(printed_config):
    values = {"loss": "info_nce", "teacher": "items", "temperature": 0.5, "positive_share": 0.5}
    assert printed_config("train images").items() >= values.items()


@pytest.mark.parametrize("command", ["train images", "compare images"])
def test_the_name_of_the_data_changes_no_default(command, printed_config):
    names = ["digits", "cifar10-jpeg", "photographs"]
    configs = [printed_config(f"{command} --data {name}") for name in names]
    assert [config.pop("data") for config in configs] == names
    assert configs[0] == configs[1] == configs[2]


def test_a_folder_of_images_is_tuned_and_compared_on_its_test_part(bayescl, pictures):
    pictures("photographs/train", ("dark", "light"))
    pictures("photographs/test", ("dark", "light"), count=10)
    options = "--losses info_nce,bayesian --stride 2 --augmentation simclr --max_train_images 30"
    outcome = bayescl(f"{LINE} --data photographs {options} --tune 2 --out comparison")
    assert "2 losses on photographs" in outcome.out
    assert "Accuracy on the test split (20 items, 95 % intervals in parentheses)" in outcome.out
    assert "The best of 2 settings for every loss, by " in outcome.out
    result = json.loads(Path("comparison/result.json").read_text())
    assert result["sizes"] == {"train": 30, "test": 20}
    for row in result["losses"].values():
        assert (row["settings"]["stride"], row["settings"]["augmentation"]) == (2, "simclr")
    assert "The best of 2 settings for every loss" in Path("comparison/report.html").read_text()
    again = bayescl("compare images --resume --out comparison")
    assert again.out == outcome.out


DATA = "--data bought.csv --dim 8 --candidates 8 --batch-size 6 --lr 0.03 --epochs 2 --device cpu"
RANKING = f"compare ranking {DATA} --losses info_nce,bayesian,bpr --seeds 2 --workers 1"


def test_losses_are_compared_reported_resumed_and_repeated(bayescl, bought):
    outcome = bayescl(f"{RANKING} --alpha 0.8 --split per-user --out first")
    for words in ("Bayesian", "BPR", "popularity", "EASE", "above InfoNCE, NDCG@20"):
        assert words in outcome.out
    assert "\nNext: " in outcome.out
    files = {path.name for path in Path("first").iterdir()}
    made = {"comparison.md", "comparison.png", "config.yaml", "report.html", "result.json", "runs"}
    assert files == made
    runs = {path.name for path in Path("first/runs").iterdir()}
    losses = {f"{loss}-seed{n}" for loss in ("info_nce", "bayesian", "bpr") for n in (0, 1)}
    assert runs == {*losses, "popularity-seed0", "ease-seed0"}
    result = json.loads(Path("first/result.json").read_text())
    assert result["losses"]["bayesian"]["settings"]["alpha"] == 0.8
    page = Path("first/report.html").read_text()
    assert "above InfoNCE, NDCG@20" in page
    assert "What the figures support" in page

    again = "compare ranking --resume --out first --workers 1"
    kept = Path("first/runs/bpr-seed1/checkpoints/last.ckpt").stat().st_mtime_ns
    # What came before is which columns were guessed.
    assert outcome.out.endswith(bayescl(again).out)
    assert Path("first/runs/bpr-seed1/checkpoints/last.ckpt").stat().st_mtime_ns == kept

    for file in ("result.json", "runs/bpr-seed1/result.json"):
        Path("first", file).unlink()
    assert bayescl(again).status == 0
    after = json.loads(Path("first/result.json").read_text())
    assert after["losses"]["bpr"]["metrics"] == result["losses"]["bpr"]["metrics"]
    assert "losses" in bayescl(f"{again} --losses bpr").complaint

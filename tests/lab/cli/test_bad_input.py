"""Bad input gets status 2, one clear line, and no folder that a later command trips over."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from ranking_data import write_groups

from bayescl_lab.runs.folder import RunFolder

IMAGES, RANKING = "train images", "train ranking --data bought.csv"
COMPARE = "compare images --losses info_nce --seeds 1 --workers 1"
COMPARE_RANKING = "compare ranking --data bought.csv --out nowhere"


@pytest.fixture
def shelf(bayescl, pictures, tmp_path, monkeypatch) -> None:
    """Files and folders that command lines name, few of them as they should be."""
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path / "nothing"))
    np.savez("few.npz", images=np.zeros((20, 4, 4)), labels=np.arange(20) % 2)
    for name, text in {
        "unknown": "learnig_rate: 1\n",
        "list": "- 1\n",
        "broken": "a: [\n",
        "tag": "a: !!python/object/apply:os.system ['true']\n",
    }.items():
        Path(f"{name}.yaml").write_text(text)
    Path("full").mkdir()
    Path("full/notes.txt").touch()
    Path("empty").mkdir()
    write_groups(tmp_path)
    pictures("pets", count=4)
    pictures("photos", (".",))
    pictures("scopes", ("scope1", "scope2"), 4)
    Path("good.csv").write_text("file,label,site\n00.png,a,1")
    Path("twice.csv").write_text("file,label\nscope1/00.png,a\nscope1/00.png,b")
    Path("names.csv").write_text("name;x\n1;2")
    Path("wide.csv").write_text("file,x\na,1,2")
    Path("other.csv").write_text("file,label\nx.png,a")


RUNS = [
    ("--data digitz", "there is no data set 'digitz'; choose digits"),
    ("--data empty", "empty contains no images"),
    ("--data cifar10", "download it with 'bayescl data fetch cifar10' (170 MB; no license"),
    ("--batch_size 1", "batch_size must be at least 2, got 1"),
    ("--epochs many", "epochs must be a valid integer, got many"),
    ("--temperature -1", "temperature must be positive, got -1"),
    ("--hidden_dim 1000000000000", "not enough memory"),
    ("--data pets --image_size 100000000", "more than the available memory"),
    ("--encoder inception_v3", "encoder must be 'small', a ResNet of torchvision"),
    ("--Epochs 3", "Unknown option: --Epochs. Did you mean --epochs?"),
    ("--epochs", "--epochs requires an argument"),
    ("--config missing.yaml", "there is no configuration file missing.yaml"),
    ("--config unknown.yaml", 'Unknown option: "[learnig_rate]" from unknown.yaml'),
    ("--config list.yaml", "must contain settings"),
    ("--config broken.yaml", "cannot read the configuration file broken.yaml"),
    ("--config tag.yaml", "cannot read the configuration file tag.yaml"),
    ("--resume", "--resume needs --out"),
    ("--resume --out missing", "there is no run folder missing"),
    ("--out /proc/bayescl-run", "/proc/bayescl-run"),
    ("--out few.npz/run", "cannot write to few.npz/run: few.npz is not a writable folder"),
    ("--out full", "full exists and is not empty"),
]


@pytest.mark.parametrize("command", [IMAGES, COMPARE])
def test_a_run_that_cannot_be_is_refused_before_there_is_a_folder(refused, shelf, command):
    # Both have the same options; what happens to data and folders is their own.
    own = ("--data", "--resume", "--out") if command == COMPARE else "-"
    refused((f"{command} {words}", message) for words, message in RUNS if words.startswith(own))


ON_SCOPES = f"{IMAGES} --data scopes --batch-size 4"
COMMANDS = [
    (f"{IMAGES} --data good.csv", "give a table of labels with --table, and the folder of its ima"),
    (f"{IMAGES} --table good.csv", "--table is for folders of images, got digits"),
    (f"{IMAGES} --folders domains", "--folders is for folders of images, got digits"),
    (f"{ON_SCOPES} --table missing.csv", "missing.csv"),
    (f"{ON_SCOPES} --table twice.csv", "scope1/00.png has rows with different labels or domains"),
    (f"{ON_SCOPES} --table good.csv --label-column kind", "has no column 'kind'; it has file"),
    (f"{ON_SCOPES} --table names.csv", "no column that looks like files; it has name, x: name the"),
    (f"{ON_SCOPES} --table wide.csv", "line 2: there are more values than in the first line"),
    (
        f"{ON_SCOPES} --table other.csv",
        "no value of column 'file' matches an image. The column has 'x",
    ),
    (f"{ON_SCOPES} --label-column kind", "label_column needs --table"),
    (f"{ON_SCOPES} --folders places", "folders must be 'classes' or 'domains', got places"),
    (f"{ON_SCOPES} --evaluate-on validation --labels-per-class 5", "class scope1 has 4"),
    ("embed . --out e.npy --output tail", 'Invalid value "tail" for --output. Choose'),
    (
        f"{IMAGES} --data digits --teacher x.npy --positive-share 1",
        "has no effect if positive_share is 1",
    ),
    (f"{IMAGES} --loss bayesian --alpha 0.3", "alpha must lie in [0.5, 1], got 0.3"),
    (f"{IMAGES} --loss info_nce --alpha 0.9", "info_nce does not take alpha; it takes"),
    (f"{IMAGES} --loss triplet", 'Invalid value "triplet" for --loss. Choose from: "info_nce"'),
    (f"{IMAGES} --devices 3", "batch_size must be divisible by the number of devices"),
    (f"{IMAGES} --data photos --loss oracle", "the oracle loss needs the class of every item"),
    (f"{COMPARE} --alpha 0.9", "none of the losses info_nce takes alpha"),
    (f"{COMPARE} --data photos --batch_size 4", "photos: a comparison needs labels"),
    (f"{COMPARE} --tune 2 --evaluate-on validation", "evaluate_on must be test"),
    ("compare images --losses ,", "losses must contain distinct names, got none"),
    ("compare images --losses hard,magic", "loss must be one of"),
    (f"{COMPARE_RANKING} --devices 2", "devices must be 1 in a comparison"),
    (f"{COMPARE_RANKING} --split none", "split must leave something to evaluate, got 'none'"),
    ("train ranking --data shopp", "there is no data set 'shopp'; choose ml-100k"),
    (f"{RANKING} --item-column film", "bought.csv has no column 'film'; it has cust"),
    (f"{RANKING} --split given", "split cannot be 'given'"),
    (f"{RANKING} --separator ab", "separator must be one character or 'tab', got 'ab'"),
    ("evaluate .", ". is not a run folder: it has no config.yaml"),
    ("recommend nowhere", "pass either --user ID or --all"),
    ("recommend nowhere --all", "--all needs --out"),
    ("embed .", "--out requires an argument"),
    ("inspect", "--run-or-file requires an argument"),
    ("data fetch a b", "unrecognized arguments: b"),
    ("data fetch movielens", "there is no data set 'movielens'; choose "),
    ("report", "give at least one run folder"),
    ("tarin images", 'Unknown command "tarin". Did you mean "train"?'),
]


def test_a_senseless_command_line_gets_one_line_and_leaves_nothing_behind(refused, shelf):
    refused(COMMANDS)


def test_deeply_nested_files_of_a_run_are_damaged(bayescl, image_run):
    deep = "[" * 50_000
    for name, line in (("result.json", "report run"), ("config.yaml", "evaluate run")):
        Path(image_run, name).write_text(
            "# bayescl train images\n" * (name != "result.json") + deep
        )
        assert f"run/{name}" in bayescl(line).complaint


def test_a_run_without_a_checkpoint_cannot_be_evaluated_yet_but_can_go_on(bayescl, image_run):
    shutil.rmtree("run/checkpoints")
    Path("run/result.json").unlink()
    for line in ("evaluate run", "inspect run"):
        assert bayescl(line).complaint == "run has no checkpoint yet"
    assert bayescl("report run").status == 0
    assert "Not finished: no result yet" in Path("run/report.html").read_text()
    assert bayescl("train images --resume --out run").status == 0


def test_runs_of_other_kinds_are_told_apart(refused, tmp_path):
    RunFolder.create(tmp_path / "comparison", "compare images", {"data": "digits"})
    RunFolder.create(tmp_path / "images", "train images", {"data": "digits"})
    lines = ("evaluate comparison", "train images --resume --out comparison")
    refused((line, "comparison contains a run of 'compare images'") for line in lines)
    message = "images contains a run of 'train images', not of 'train ranking'"
    refused([("recommend images --user 1", message)])
    RunFolder.create(tmp_path / "ranking", "train ranking", {"data": "digits"})
    message = "ranking contains a run of 'train ranking', not of 'train images'"
    refused([("inspect ranking", message)])

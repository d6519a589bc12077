"""Bad input gets status 2, one clear line, and no folder that a later command trips over."""

from __future__ import annotations

import os
import shutil
import struct
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from bayescl_lab.runs.folder import RunFolder

COMPARE = "compare images --losses info_nce --seeds 1 --workers 1"


RUNS = [
    ("--data digitz", "no data set is called 'digitz'; known are digits"),
    ("--data nowhere/", "no data set is called 'nowhere/'"),
    ("--data nowhere/scans.npz", "there is no file nowhere/scans.npz"),
    ("--data nan.npz", "nan.npz: images must be finite, got 1 NaN"),
    ("--data few.npz", "batch_size must be at most the number of training images, got 256"),
    ("--batch_size 1", "batch_size must be at least 2, got 1"),
    ("--batch_size 2000", "got 2000 for 1258 images"),
    ("--epochs 0", "epochs must be at least 1, got 0"),
    ("--epochs many", "epochs must be a valid integer, got many"),
    ("--lr 0", "lr must be above 0, got 0"),
    ("--lr nan", "lr must be a finite number, got nan"),
    ("--lr inf", "lr must be"),
    ("--temperature warm", "temperature must be a valid number, got warm"),
    ("--temperature -1", "temperature must be positive, got -1"),
    ("--seed -1", "seed must be at least 0, got -1"),
    ("--strength 9", "strength must be at most 5, got 9"),
    ("--evaluate_on train", "evaluate_on must be 'test' or 'validation', got train"),
    ("--device abacus", "device must be 'auto', 'cpu' or 'cuda', got abacus"),
    ("--unknown 1", "Unknown option: --unknown"),
    ("stray", "unrecognized arguments: stray"),
    ("--config missing.yaml", "there is no configuration file missing.yaml"),
    ("--config unknown.yaml", 'Unknown option: "[learnig_rate]" from unknown.yaml'),
    ("--config list.yaml", "must hold settings"),
    ("--config broken.yaml", "cannot read the configuration file broken.yaml"),
    ("--config typed.yaml", "epochs must be a valid integer, got 1,2"),
    ("--config", "--config requires an argument"),
    ("--resume", "--resume needs --out"),
    ("--resume --out missing", "missing is not a run folder"),
    ("--resume --out full", "full is not a run folder: it has no config.yaml"),
]


@pytest.mark.parametrize("command", ["train images", COMPARE])
def test_a_run_that_cannot_be_is_refused_before_there_is_a_folder(refused, command):
    np.savez("nan.npz", images=np.array([[[np.nan]], [[0.0]]]), labels=[0, 1])
    np.savez("few.npz", images=np.zeros((20, 4, 4)), labels=np.arange(20) % 2)
    Path("unknown.yaml").write_text("learnig_rate: 1\n")
    Path("list.yaml").write_text("- 1\n")
    Path("broken.yaml").write_text("a: [\n")
    Path("typed.yaml").write_text("epochs: [1, 2]\n")
    Path("full").mkdir()
    Path("full/notes.txt").touch()
    refused((f"{command} {options}", message) for options, message in RUNS)


SENSELESS = [
    ("train images --alpha 0.3", "alpha must lie in [0.5, 1], got 0.3"),
    ("train images --loss info_nce --alpha 0.9", "info_nce does not take alpha; it takes"),
    ("train images --loss oracle --num_classes 3", "oracle does not take num_classes"),
    (
        "train images --loss triplet",
        'Invalid value "triplet" for --loss. Choose from: "info_nce"',
    ),
    ("train images --tau_plus 1.0", "tau_plus must lie in [0, 1), got 1.0"),
    ("train images --alpha 1 --beta 1", "alpha and beta"),
    ("train images --num_classes 1", "num_classes must be at least 2, got 1"),
    (f"{COMPARE} --alpha 0.9", "none of the losses info_nce takes alpha"),
    ("compare images --losses ,", "losses must name at least one loss"),
    ("compare images --losses hard,hard", "losses must name every loss once"),
    ("compare images --losses hard,magic", "loss must be one of"),
    ("compare images --seeds 0", "seeds must be at least 1, got 0"),
    ("compare images --workers 0", "workers must be at least 1, got 0"),
    ("evaluate", "--run requires an argument"),
    ("evaluate nowhere", "there is no run folder nowhere"),
    ("evaluate .", ". is not a run folder: it has no config.yaml"),
    ("train sounds", 'Unknown command "sounds". Available commands: images, ranking'),
    ("tarin images", 'Unknown command "tarin". Did you mean "train"?'),
    ("--frobnicate", 'Unknown command "--frobnicate"'),
]


def test_a_senseless_command_line_is_answered_in_one_line(refused):
    refused(SENSELESS)


HOSTILE = {
    "numbers": [
        ("train images --checkpoint_every 0", "checkpoint_every must be at least 1"),
        ("train images --checkpoint-every-steps 0", "checkpoint_every_steps must be at least 1"),
        ("train images --batch_size 1.5", "batch_size must be a valid integer, got 1.5"),
        ("train images --epochs 1e3", "epochs must be a valid integer, got 1e3"),
        ("train images --lr 1e400", "lr must be a finite number, got 1e400"),
        ("train images --lr=", "lr must be a valid number, got"),
        ("train images --strength nan", "strength must be a finite number, got nan"),
        ("train images --weight_decay -1", "weight_decay must be at least 0, got -1"),
        ("train images --alpha_labels 1", "alpha_labels must be at least 2, got 1"),
        ("train ranking --devices 0", "devices must be at least 1, got 0"),
        ("compare ranking --devices 2", "devices must be 1 in a comparison"),
        ("train images --devices 0", "devices must be at least 1, got 0"),
        ("train images --num_nodes -3", "num_nodes must be at least 1, got -3"),
    ],
    "sizes": [
        ("train images --hidden_dim 1000000000000", "not enough memory"),
        ("train images --embedding_dim 1000000000000000", "not enough memory"),
        ("train images --image_size 100000000", "not enough memory"),
        (
            "train images --hidden_dim 99999999999999999999",
            "hidden_dim must be less than 9223372036854775808",
        ),
        ("train ranking --data shop.csv --dim 100000000000000", "not enough memory"),
        ("simulate mse --candidates 10000000000000000", "not enough memory"),
    ],
    "networks and their images": [
        ("train images --encoder vgg16", "the encoder vgg16 does not support images of 8 pixels"),
        ("train images --encoder vit_b_16", "vit_b_16"),
        ("train images --encoder inception_v3", "inception_v3 does not support images of 8 pixels"),
        ("train images --encoder ../../etc", "encoder must be small or a network of torchvision"),
    ],
    "configuration files": [
        ("train images --config date.yaml", "seed must be a valid integer, got 2024-01-02"),
        ("train images --config day.yaml", "no data set is called '2024-01-02'"),
        ("train images --config no_date.yaml", "cannot read the configuration file no_date.yaml"),
        ("train images --config null.yaml", "epochs must be a valid integer, got None"),
        ("train images --config number.yaml", 'Unknown option: "[1]" from number.yaml'),
        ("train images --config alias.yaml", 'Unknown option: "[a]" from alias.yaml'),
        ("train images --config tag.yaml", "cannot read the configuration file tag.yaml"),
        ("train images --config bytes.yaml", "cannot read the configuration file bytes.yaml"),
        ("train images --config .", "cannot read the configuration file ."),
        ("compare images --config flat.yaml", "hyperparameters.hard must be a valid dictionary"),
        ("compare images --config deep.yaml", "tau_plus must be a number"),
        ("compare images --hyperparameters {hard:", "it must be a mapping in YAML, got {hard:"),
    ],
    "words": [
        ("train images -x", "Unknown option: -x"),
        ("train images --Epochs 3", "Unknown option: --Epochs. Did you mean --epochs?"),
        ("train images --epochs", "--epochs requires an argument"),
        ("train images --lr --epochs 3", "--lr requires an argument"),
        ("train images --compiled maybe", "unrecognized arguments: maybe"),
        ("train images --loss=", 'Choose from: "info_nce"'),
        ("train images --classes 1", "classes must be a whole number of at least 2, got 1"),
        ("train images --classes 99", "classes must be at most 10, got 99"),
        ("train images --classes a,b", "unknown class a, b"),
        ("train images --alpha_schedule ramp --loss hard", "alpha_schedule must be fixed"),
        ("train images --alpha_schedule measured --beta 1 --alpha .9", "beta must be below 1"),
        ("train images --resume --out .", ". is not a run folder"),
        ("train images --resume --out notes", "notes is not a run folder"),
        ("train ranking --split weekly", "split must be 'per-user', 'random', 'last', 'given'"),
        ("train ranking --k-core -1", "k_core must be at least 0, got -1"),
        ("train ranking --mask-known maybe", "unrecognized arguments: maybe"),
        ("train ranking --data shop.csv --item-norm-exponent -1", "item_norm_exponent must be at"),
        ("evaluate a b", "unrecognized arguments: b"),
        ("evaluate date.yaml", "there is no run folder date.yaml"),
        ("embed .", "--out requires an argument"),
        ("recommend . --user 1 -k 0", "k must be at least 1, got 0"),
        ("recommend . --user 1 -k", "-k requires an argument"),
        ("inspect . --anchor_images 1,x", "anchor_images must be a valid integer, got x"),
        ("inspect . --part middle", "part must be 'train' or 'evaluation', got middle"),
        ("simulate mse --out date.yaml", "cannot write to the folder date.yaml"),
        ("simulate mse --sampler dice", "must be 'inversion' or 'accept-reject'"),
        ("reproduce runtime --workers 0", "workers must be at least 1, got 0"),
        ("reproduce hardness --losses bayesian", "the table hardness has no losses to choose from"),
        ("reproduce ranking --encoders ,", "encoders must name each once, got none"),
        ("data fetch a b", "unrecognized arguments: b"),
    ],
}


def test_hostile_command_lines_get_one_line_and_leave_nothing_behind(refused):
    for name, text in {
        "date": "seed: 2024-01-02\n",
        "day": "data: 2024-01-02\n",
        "no_date": "seed: 2024-13-45\n",
        "null": "epochs: null\n",
        "number": "1: 2\n",
        "alias": "a: &a [*a]\n",
        "tag": "a: !!python/object/apply:os.system ['true']\n",
        "flat": "hyperparameters: {hard: 3}\n",
        "deep": "hyperparameters: {hard: {tau_plus: 2024-01-02}}\n",
    }.items():
        Path(f"{name}.yaml").write_text(text)
    Path("bytes.yaml").write_bytes(b"\xff\xfe\x00")
    Path("notes").mkdir()
    pairs = [f"{user},{item}" for user in range(6) for item in range(6)]
    Path("shop.csv").write_text("\n".join(["user,item", *pairs]))
    refused(chain(*HOSTILE.values()))


def npy(shape: str) -> bytes:
    """A file of NumPy's format whose header says a shape that its values do not have."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)


def safetensors(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(64)


def entry(shape: str, offsets: str = "[0, 16]") -> bytes:
    said = f'{{"dtype": "F32", "shape": {shape}, "data_offsets": {offsets}}}'
    return safetensors(f'{{"embeddings": {said}}}'.encode())


HEADERS = [
    ("a.npy", npy("(-3, 4)"), "it does not hold the shape (-3, 4)"),
    ("a.npy", npy("(1000000000000, 4)"), "it does not hold the shape"),
    ("a.npy", npy("(2, 2, 2)"), "number of dimensions must be 1 or 2, got shape (2, 2, 2)"),
    ("a.npy", npy("(1.5, 4)"), "shape is not valid"),
    ("a.npz", {"embeddings": b"hello"}, "has no array"),
    ("a.npz", {"embeddings.npy": b"hello"}, "magic string"),
    ("a.npz", {"embeddings.npy": npy("(-3, 4)")}, "it does not hold the shape (-3, 4)"),
    ("a.npz", {"embeddings.npy": npy("(9, 99999999)")}, "it does not hold the shape"),
    ("a.safetensors", safetensors(b'{"a":' * 50_000), "recursion limit exceeded"),
    ("a.safetensors", safetensors(b"[1]"), "it is not a safetensors file"),
    ("a.safetensors", safetensors(b'{"embeddings": 1}'), "it is not a safetensors file"),
    ("a.safetensors", entry("[Infinity, 2]"), "it is not a safetensors file"),
    ("a.safetensors", entry("[2, 2]", "[0, NaN]"), "it is not a safetensors file"),
    ("a.safetensors", entry("[2, 2]", "[0, 999999]"), "invalid shape, data type, or offset"),
]


def test_hostile_files_of_embeddings_are_refused_by_their_headers(bayescl):
    for name, content, message in HEADERS:
        if isinstance(content, bytes):
            Path(name).write_bytes(content)
        else:
            with zipfile.ZipFile(name, "w") as archive:
                for member, values in content.items():
                    archive.writestr(member, values)
        outcome = bayescl(f"inspect {name}")
        assert outcome.status == 2
        assert outcome.complaint.startswith(f"cannot read {name}: ")
        assert message in outcome.complaint


def test_deeply_nested_files_of_a_run_are_damaged(bayescl, image_run):
    deep = "[" * 50_000
    for name, line in (
        ("result.json", "report run"),
        ("config.yaml", "evaluate run"),
        ("config.yaml", "train images --config run/config.yaml"),
    ):
        file = Path(image_run, name)
        file.write_text(file.read_text().splitlines()[0] + "\n" + deep)
        if name == "result.json":
            file.write_text(deep)
        outcome = bayescl(line)
        assert outcome.status == 2
        assert f"run/{name}" in outcome.complaint


def test_a_place_that_cannot_be_written_to_or_holds_something_is_named(refused, bars):
    Path("file").touch()
    Path("full").mkdir()
    Path("full/notes.txt").touch()
    messages = {out: out for out in ("file", "file/run", "/proc/bayescl-run")}
    messages["full"] = "full exists and is not empty"
    refused(
        (f"{command} {bars} --out {out}", message)
        for command in ("train images", COMPARE)
        for out, message in messages.items()
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(bayescl, bars):
    Path("locked").mkdir(mode=0o500)
    outcome = bayescl(f"train images {bars} --out locked/run")
    assert outcome.status == 2
    assert "cannot write to locked/run" in outcome.complaint


def test_a_run_without_a_checkpoint_cannot_be_evaluated_yet_but_can_go_on(bayescl, image_run):
    shutil.rmtree("run/checkpoints")
    Path("run/result.json").unlink()
    outcome = bayescl("evaluate run")
    assert outcome.status == 2
    assert outcome.complaint == "run has no checkpoint yet"
    assert bayescl("train images --resume --out run").status == 0


def test_a_damaged_checkpoint_is_named(refused, image_run):
    Path("run/result.json").unlink()
    checkpoint = Path("run/checkpoints/last.ckpt")
    whole, message = checkpoint.read_bytes(), "the checkpoint run/checkpoints/last.ckpt is damaged"
    for content in (b"", b"PK\x03\x04", b"junk" * 100, whole[: len(whole) // 2]):
        checkpoint.write_bytes(content)
        refused((line, message) for line in ("evaluate run", "train images --resume --out run"))


def test_a_comparison_is_no_run_to_evaluate_or_train(refused, tmp_path):
    RunFolder.create(tmp_path / "comparison", "compare images", {"data": "digits"})
    lines = ("evaluate comparison", "train images --resume --out comparison")
    refused((line, "comparison holds a run of 'compare images'") for line in lines)


def test_a_data_file_gone_since_training_is_named(bayescl, image_run):
    remembered = Path("run/data.json")  # tests share a run, whose data others still need
    remembered.write_text(remembered.read_text().replace("bars.npz", "gone.npz"))
    outcome = bayescl("evaluate run")
    assert outcome.status == 2
    assert outcome.complaint.startswith("the images of the run are missing from ")
    assert outcome.complaint.endswith("gone.npz: give their location with --data")

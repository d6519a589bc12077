"""The rehearsal of the paper's tables: its archives are read, fetched and trained on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import rehearse_reproduce
from rehearsal.archives import md5, put_in_place, write_archive

from bayescl_lab.cli import main
from bayescl_lab.images import catalog
from bayescl_lab.images.datasets import load_images

SHARE = 0.006
COUNTS = {
    "cifar10": (300, 60, 10),
    "cifar100": (500, 500, 100),
    "stl10": (50 + 600, 50, 10),
    "tiny-imagenet": (1000, 1000, 200),
}


@pytest.fixture
def replaced(monkeypatch) -> None:
    """Sources are the published ones again afterwards."""
    monkeypatch.setattr(catalog, "SOURCES", catalog.SOURCES)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.usefixtures("replaced")
def test_a_generated_archive_has_the_published_form(name, tmp_path, monkeypatch):
    folder = tmp_path / "data" / name
    folder.mkdir(parents=True)
    path = write_archive(name, folder, SHARE)
    written = path.read_bytes()
    assert write_archive(name, folder, SHARE).read_bytes() == written
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path / "data"))
    put_in_place({name: {"url": "", "size": len(written), "checksum": md5(path)}})
    parts = load_images(name)
    train, _, classes = COUNTS[name]
    sizes = len(parts.train), len(parts.evaluation), parts.train.num_classes
    assert sizes == COUNTS[name]
    labelled = parts.train.labels[parts.train.labels >= 0]
    assert len(set(labelled.bincount(minlength=classes).tolist())) == 1
    pixels = parts.train.images.numpy()
    assert len(np.unique(pixels[:, :, 0, 0], axis=0)) > 0.9 * train


@pytest.mark.usefixtures("replaced")
def test_one_command_fetches_what_is_missing_and_makes_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BAYESCL_DATA", "data")
    Path("served").mkdir()
    path = write_archive("cifar10", Path("served"), SHARE)
    with rehearse_reproduce.served(Path("served")) as address:
        file = {"url": f"{address}/{path.name}", "size": path.stat().st_size}
        put_in_place({"cifar10": {**file, "checksum": md5(path)}})
        # It may have been imported before.
        monkeypatch.setattr("bayescl_lab.cli.data.IMAGES", catalog.SOURCES)
        words = "reproduce all --size rehearsal --datasets cifar10 --losses hard --device cpu"
        words = f"{words} --workers 1 --out table"
        assert main([*words.split(), "--datasets", "cifar10"]) == 2
        assert "bayescl data fetch cifar10" in capsys.readouterr().err
        # Two classes of so few images do not fill a batch.
        words = words.replace("reproduce all", "reproduce multiclass")
        assert main([*words.split(), "--fetch"]) == 0
    said = capsys.readouterr().err
    assert "terms: no licence stated" in said
    assert "fetched and verified" in said
    assert json.loads(Path("table/result.json").read_text())["cells"][0]["paper"] == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the memory is read from /proc")
def test_a_step_is_measured_and_a_failing_one_is_an_error(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\nheld = bytearray(b'x' * 2**26)\ntime.sleep(0.3)\nprint('done')\n"
        "sys.exit(sys.argv[-1] == 'badly')\n"
    )
    figures = rehearse_reproduce.carry_out(tmp_path / "setup.json", ["well"], program)
    assert figures["said"] == "done"
    assert figures["seconds"] >= 0.3
    assert 64 < figures["own_mib"] < 640
    assert figures["peak_mib"] > 64
    with pytest.raises(RuntimeError, match="badly ended with 1"):
        rehearse_reproduce.carry_out(tmp_path / "setup.json", ["badly"], program)

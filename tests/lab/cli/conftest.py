import re
import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml
from PIL import Image
from ranking_data import OPTIONS, write_groups

from bayescl_lab.cli import main
from bayescl_lab.runs.folder import RunFolder, read_json, write_json


class Outcome(NamedTuple):
    """What a command line came to."""

    status: int
    printed: str
    err: str

    @property
    def out(self) -> str:
        """What a command that succeeded printed."""
        assert self.status == 0, self.err
        return self.printed

    @property
    def complaint(self) -> str:
        """The one line on standard error about bad input, beside notes."""
        lines = [line for line in self.err.splitlines() if not line.startswith("note: ")]
        assert self.status == 2
        assert len(lines) == 1, self.err
        assert lines[0].startswith("bayescl: ")
        assert not re.search(r"Traceback|site-packages|\.py\b|ignore_errors", lines[0])
        return lines[0].removeprefix("bayescl: ")


@pytest.fixture
def bayescl(capsys, monkeypatch, tmp_path, few_draws) -> Callable[[str], Outcome]:
    """Run a command line in an empty folder of its own."""
    return command_lines(capsys, monkeypatch, tmp_path)


def command_lines(capsys, monkeypatch, folder: Path, *program) -> Callable[[str], Outcome]:
    """Run command lines of a program in a folder."""
    monkeypatch.chdir(folder)

    def run(line: str) -> Outcome:
        capsys.readouterr()
        status = main(shlex.split(line), *program)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def printed_config(bayescl) -> Callable[[str], dict]:
    """The settings that --print-config prints for a command line."""
    return lambda line: yaml.safe_load(bayescl(f"{line} --print-config").out)


@pytest.fixture
def refused(bayescl, tmp_path) -> Callable[[Iterable[tuple[str, str]]], None]:
    """Checks that command lines end with status 2 and one line, and leave nothing behind."""

    def check(cases: Iterable[tuple[str, str]]) -> None:
        before = sorted(path.name for path in tmp_path.rglob("*"))
        wrong = []
        for line, message in cases:
            outcome = bayescl(line)
            files = sorted(path.name for path in tmp_path.rglob("*"))
            if outcome.status != 2 or message not in outcome.complaint or files != before:
                wrong.append((line, message, outcome, set(files) - set(before)))
        assert not wrong

    return check


@pytest.fixture
def bars(shapes) -> str:
    """Options of a run that takes a second: 90 images, three classes, a tiny encoder."""
    return f"--data {Path(shapes).name} --batch_size 20 --width 4 --epochs 3 --device cpu"


@pytest.fixture
def pictures() -> Callable[..., None]:
    """Makes a folder of classes of small colored images, each of its own brightness."""

    def make(root: str, classes: tuple[str, ...] = ("cat", "dog"), count: int = 20) -> None:
        generator = np.random.default_rng(0)
        for label, name in enumerate(classes):
            folder = Path(root) / name
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                pixels = generator.integers(100 * label, 100 * label + 120, (12, 12, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")

    return make


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory) -> Path:
    """Where the first test that needs a trained run leaves it for the others."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def trained(bayescl, trained_once, tmp_path) -> Callable[[str, str], str]:
    """Trains a run once, and copies it into the test's own folder."""

    def train(name: str, line: str) -> str:
        kept, place = trained_once / name, trained_once / f"{name}.txt"
        if kept.exists():
            shutil.copytree(kept, "run")
            # Folders remember where their data are, so a copy is told where its own are.
            folder = RunFolder.find(Path("run"))
            record = read_json(folder.data_file, folder.identity)
            record["data"] = record["data"].replace(place.read_text(), str(tmp_path))
            write_json(folder.data_file, record, folder.identity)
        else:
            assert bayescl(f"{line} --out run").status == 0
            shutil.copytree("run", kept)
            place.write_text(str(tmp_path))
        return "run"

    return train


@pytest.fixture
def image_run(trained, bars) -> str:
    """A finished run on bars."""
    return trained("bars", f"train images {bars}")


@pytest.fixture
def bought(bayescl, tmp_path) -> Path:
    """A table of purchases, whose items come in three groups as users do."""
    return write_groups(tmp_path)


@pytest.fixture
def recommender(trained, bought) -> str:
    """A trained recommender, in the folder of its table."""
    return trained("bought", f"train ranking {OPTIONS}")

"""The folder of a run: what lies where, and writing that a crash cannot spoil."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bayescl._files import staged_folder, sweep, write_atomically

_HEADER = "# bayescl "
"""What the first line of ``config.yaml`` begins with; the kind of run follows."""
_FORMAT_LINE, FORMAT = "# format ", 2
"""The second line says which format a folder has; folders from before it had a number have 1."""
_READ = tuple(f"{_FORMAT_LINE}{number}" for number in range(1, FORMAT + 1))


@dataclass(frozen=True)
class RunFolder:
    """A folder with ``config.yaml``, ``metrics.csv``, ``checkpoints/`` and ``result.json``.

    Since format 2 a run that trains also writes down its data: ``data.json`` says where they were
    and what they looked like, ``images.npz`` or ``interactions.npz`` which row was in which part,
    and a finished recommender has its matrices in ``embeddings.npz``. A folder of format 1 lacks
    these files and opens all the same.

    ``config.yaml`` names the kind of run and the folder's format in comments, and can be handed to
    the command that makes such runs as ``--config``. The folder comes into being together with it,
    so that a run folder is a folder with such a file. Every other file is written beside its place
    and then moved there: a reader, or a run that continues after it was killed, finds the old or
    the new one whole.

    Attributes:
        path: where the folder is.
        kind: what kind of run it holds: the command that makes it, such as "train images".
    """

    path: Path
    kind: str

    @property
    def config_file(self) -> Path:
        """The kind of the run and its full settings, as options of its command."""
        return self.path / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        """One row per epoch."""
        return self.path / "metrics.csv"

    @property
    def checkpoint(self) -> Path:
        """The last checkpoint."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def best_checkpoint(self) -> Path:
        """The weights of the best epoch, in runs that choose one."""
        return self.path / "checkpoints" / "best.ckpt"

    def kept_checkpoint(self) -> Path:
        """The checkpoint that a run's figures are about: of the best epoch, or else the last.

        Raises:
            ValueError: if there is no checkpoint yet.
        """
        for checkpoint in (self.best_checkpoint, self.checkpoint):
            if checkpoint.is_file():
                return checkpoint
        raise ValueError(f"{self.path} has no checkpoint yet")

    @property
    def data_file(self) -> Path:
        """What the run's data were; missing in folders of format 1."""
        return self.path / "data.json"

    @property
    def result_file(self) -> Path:
        """The figures of the finished run; its presence means that the run is finished."""
        return self.path / "result.json"

    @property
    def weights_file(self) -> Path:
        """The weights of the finished run, for any reader of safetensors."""
        return self.path / "weights.safetensors"

    @property
    def is_finished(self) -> bool:
        """Whether the run has written its result."""
        return self.result_file.is_file()

    @classmethod
    def create(cls, path: Path, kind: str, config: Mapping[str, object]) -> RunFolder:
        """Make the folder of a new run.

        Args:
            path: where; nothing or an empty folder may be there.
            kind: what kind of run it will hold.
            config: the settings, as plain values.

        Raises:
            ValueError: if something is there already, or the place cannot be written to.
        """
        check_vacant(path)
        try:
            with staged_folder(path) as staging:
                folder = cls(staging, kind)
                write_atomically(folder.config_file, _header(kind) + _yaml(config))
        except OSError as error:
            raise ValueError(f"cannot write to {path}: {error.strerror or error}") from None
        return cls(path, kind)

    @classmethod
    def find(cls, path: Path) -> RunFolder:
        """Find the folder of a run of any kind.

        Raises:
            ValueError: if there is no such folder, or it holds no run.
        """
        return cls(path, cls(path, "")._read_config()[0])

    @classmethod
    def open(cls, path: Path, kind: str) -> RunFolder:
        """Find the folder of a run that was begun earlier.

        Raises:
            ValueError: if there is no such folder, or it holds no run, or one of another kind.
        """
        folder = cls(path, kind)
        found = folder._read_config()[0]
        if found != kind:
            raise ValueError(f"{path} holds a run of '{found}', not of '{kind}'")
        return folder

    def config(self) -> dict[str, Any]:
        """The settings of the run."""
        return self._read_config()[1]

    def write_result(self, result: Mapping[str, object], *, name: str = "result.json") -> Path:
        """Write figures as JSON and return the file."""
        target = self.path / name
        write_atomically(target, as_json(result))
        return target

    def read_result(self) -> dict[str, Any]:
        """The figures of the finished run."""
        return read_json(self.result_file)

    def write_metrics(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Write the rows of ``metrics.csv``; what a row lacks is left empty."""
        rows = list(rows)
        text = io.StringIO()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.metrics_file, text.getvalue())

    def read_metrics(self) -> list[dict[str, float]]:
        """The rows of ``metrics.csv``; none if there is no such file."""
        if not self.metrics_file.is_file():
            return []
        try:
            with self.metrics_file.open(newline="", encoding="utf-8") as file:
                return [
                    {key: _number(value) for key, value in row.items() if value != ""}
                    for row in csv.DictReader(file)
                ]
        except (ValueError, TypeError):
            raise ValueError(f"{self.metrics_file} is damaged") from None

    def sweep(self) -> None:
        """Remove what a run that was killed left of files it was about to write."""
        names = ("metrics.csv", "result.json", "data.json", "weights.safetensors")
        matrices = ("images.npz", "interactions.npz", "embeddings.npz")
        for file in (self.path / name for name in (*names, *matrices)):
            sweep(file)
        for file in (self.checkpoint, self.best_checkpoint):
            sweep(file)

    def go_on(self, config: Mapping[str, object]) -> None:
        """Give a run that goes on other settings; what it found under the old ones is no more."""
        for file in (self.result_file, self.weights_file):
            file.unlink(missing_ok=True)
        write_atomically(self.config_file, _header(self.kind) + _yaml(config))

    def _read_config(self) -> tuple[str, dict[str, Any]]:
        """Kind and settings, or a ``ValueError`` that says why this is not a run folder."""
        if not self.path.is_dir():
            raise ValueError(f"there is no run folder {self.path}")
        if not self.config_file.is_file():
            raise ValueError(f"{self.path} is not a run folder: it has no config.yaml")
        try:
            text = self.config_file.read_text(encoding="utf-8")
            config = yaml.safe_load(text)
        except (yaml.YAMLError, UnicodeDecodeError):
            raise ValueError(f"{self.config_file} is damaged") from None
        first, second, *_ = *text.split("\n", 2), ""
        if not first.startswith(_HEADER) or not isinstance(config, dict):
            raise ValueError(f"{self.path} is not a run folder: its config.yaml names no run")
        if second.startswith(_FORMAT_LINE) and second not in _READ:
            raise ValueError(
                f"{self.path} has {second.removeprefix('# ')} of run folders, from another "
                f"version of bayescl; this one reads format {FORMAT}"
            )
        return first.removeprefix(_HEADER), config


def check_vacant(path: Path) -> None:
    """Refuse a place where a run folder would meet something else.

    Raises:
        ValueError: if there is a file, or a folder that is not empty, or no writing there.
    """
    if path.is_dir():
        if any(path.iterdir()):
            raise ValueError(
                f"{path} exists and is not empty: resume it with --resume or name another folder"
            )
    elif path.exists():
        raise ValueError(f"{path} exists and is not a folder")
    nearest = path if path.is_dir() else path.parent
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {path}: {nearest} is not a writable folder")


def as_json(value: Mapping[str, object]) -> str:
    """A mapping as JSON; NaN and infinity are refused, as JSON has neither."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file.

    Raises:
        ValueError: if the file holds none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(f"{path} is damaged") from None
    if isinstance(value, dict):
        return value
    raise ValueError(f"{path} is damaged")


def _number(text: str) -> float:
    """A number as it was written, so that it is written alike again."""
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _header(kind: str) -> str:
    """The comments at the head of ``config.yaml``."""
    return f"{_HEADER}{kind}\n{_FORMAT_LINE}{FORMAT}\n"


def _yaml(value: Mapping[str, object]) -> str:
    """A mapping as YAML, in its own order."""
    return str(yaml.safe_dump(dict(value), sort_keys=False))

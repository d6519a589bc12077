"""The folder of a run, with crash-safe writing."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import yaml

from bayescl_lab._files import staged_folder, sweep, write_atomically
from bayescl_lab._types import Config
from bayescl_lab.runs.digest import PLACEHOLDER, has_digest, with_digest

_HEADER = "# bayescl "
"""Start of the first line of ``config.yaml``, before the kind of run."""
_DIGEST = "digest"
"""Last field of JSON files of a run."""
_IDENTITY = "# run "
"""Start of the second line of ``config.yaml``, before the identity of the run."""


def _file(name: str) -> Any:
    """Return a property: the path of a file in a run's folder."""
    return property(lambda folder: folder.path / name)


@dataclass(frozen=True)
class RunFolder:
    """A folder with ``config.yaml``, ``metrics.csv``, ``checkpoints/`` and ``result.json``.

    A run that trains also records its data; see :mod:`bayescl_lab.runs.record`. ``config.yaml``
    has the kind of run in a comment, and can be passed as ``--config`` to the command of this kind.
    Files are written to a temporary file and then moved, so readers never see incomplete files.
    Files that affect results have a digest (see :mod:`bayescl_lab.runs.digest`), which is checked
    when they are read.

    Attributes:
        path: Path of the folder.
        kind: Kind of run: its command, such as "train images".
    """

    path: Path
    kind: str

    config_file: ClassVar[Path] = _file("config.yaml")
    """The kind of the run and its full settings, as options of its command."""
    metrics_file: ClassVar[Path] = _file("metrics.csv")
    """One row per epoch. The checkpoint has the rows too, so resuming does not read this file."""
    checkpoint: ClassVar[Path] = _file("checkpoints/last.ckpt")
    """The last checkpoint."""
    data_file: ClassVar[Path] = _file("data.json")
    """Description of the run's data, written when training starts."""
    result_file: ClassVar[Path] = _file("result.json")
    """The metrics of the run. The run is finished if this file exists."""

    def kept_checkpoint(self) -> Path:
        """Return the last checkpoint; raise ``ValueError`` if there is none."""
        if not self.checkpoint.is_file():
            raise ValueError(f"{self.path} has no checkpoint yet")
        return self.checkpoint

    @property
    def identity(self) -> str:
        """Random identity of the run, part of the digests of its files."""
        return self._read_config()[1]

    @property
    def has_record(self) -> bool:
        """Whether the run has recorded its data, which it does before the first checkpoint."""
        return self.data_file.is_file() or self.checkpoint.is_file()

    @classmethod
    def create(cls, path: Path, kind: str, config: Mapping[str, object]) -> RunFolder:
        """Create the folder of a new run with its settings as plain values.

        Raises:
            ValueError: if the folder is not empty or not writable.
        """
        check_vacant(path)
        try:
            with staged_folder(path) as staging:
                cls(staging, kind)._write_config(config)
        except OSError as error:
            raise ValueError(f"cannot write to {path}: {error.strerror or error}") from None
        return cls(path, kind)

    @classmethod
    def find(cls, path: Path) -> RunFolder:
        """Find the folder of a run of any kind; raise ``ValueError`` if there is none."""
        return cls(path, cls(path, "")._read_config()[0])

    @classmethod
    def open(cls, path: Path, kind: str) -> RunFolder:
        """Open the folder of an existing run of a kind; raise ``ValueError`` if there is none."""
        actual = cls.find(path).kind
        if actual != kind:
            raise ValueError(f"{path} contains a run of '{actual}', not of '{kind}'")
        return cls(path, kind)

    def config(self) -> Config:
        """Return the settings of the run."""
        return self._read_config()[2]

    def write_metrics(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write the rows of ``metrics.csv``."""
        import polars as pl

        write_atomically(self.metrics_file, pl.DataFrame(rows).write_csv())

    @property
    def finished_epochs(self) -> int:
        """Number of rows of ``metrics.csv``, to show the progress of a run."""
        try:
            return self.metrics_file.read_bytes().count(b"\n") - 1
        except OSError:
            return 0

    def sweep(self) -> None:
        """Remove temporary files of a killed run."""
        sweep(self.path)
        sweep(self.checkpoint.parent)

    def _write_config(self, config: Mapping[str, object]) -> None:
        settings = yaml.safe_dump(dict(config), sort_keys=False)
        text = f"{_HEADER}{self.kind}\n{_IDENTITY}{uuid.uuid4().hex}\n{settings}# "
        write_atomically(self.config_file, with_digest(text.encode() + PLACEHOLDER + b"\n", ""))

    def _read_config(self) -> tuple[str, str, Config]:
        """Read kind, identity and settings; raise ``ValueError`` if this is not a run folder."""
        if not self.path.is_dir():
            raise ValueError(f"there is no run folder {self.path}")
        if not self.config_file.is_file():
            raise ValueError(f"{self.path} is not a run folder: it has no config.yaml")
        content = self.config_file.read_bytes()
        if not content.startswith(_HEADER.encode()):
            raise ValueError(f"{self.path} is not a run folder: its config.yaml is not from a run")
        if not has_digest(content, ""):
            raise ValueError(f"{self.config_file} is damaged: it was changed after the run started")
        kind, identity, settings = content.decode().split("\n", 2)
        config: Config = yaml.safe_load(settings)
        return kind.removeprefix(_HEADER), identity.removeprefix(_IDENTITY), config


class Kind(str, Enum):
    """Kinds of runs that train a model. The value is the command that starts the run."""

    ARRAYS = "train arrays"
    IMAGES = "train images"
    RANKING = "train ranking"

    __str__ = str.__str__

    @classmethod
    def of(cls, path: Path) -> Kind:
        """Return the kind of a run; raise ``ValueError`` if it has no model."""
        kind = RunFolder.find(path).kind
        if kind not in [*cls]:
            raise ValueError(f"{path} contains a run of '{kind}', which has no model")
        return cls(kind)


def check_vacant(
    path: Path, advice: str = "resume it with --resume or choose another folder"
) -> None:
    """Raise ``ValueError`` if a path is a file, a non-empty folder, or not writable."""
    if path.is_dir():
        if any(path.iterdir()):
            raise ValueError(f"{path} exists and is not empty: {advice}")
    elif path.exists():
        raise ValueError(f"{path} exists and is not a folder")
    check_writable(path)


def check_writable(path: Path) -> None:
    """Raise ``ValueError`` if a folder, existing or new, is not writable."""
    nearest = path
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {path}: {nearest} is not a writable folder")


def write_json(path: Path, value: Mapping[str, object], identity: str | None = None) -> None:
    """Write a mapping to a JSON file, with a digest if the identity of a run is given.

    NaN and infinity raise ``ValueError``, because JSON does not have them.
    """
    value = value if identity is None else {**value, _DIGEST: PLACEHOLDER.decode()}
    content = (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    write_atomically(path, content if identity is None else with_digest(content, identity))


def read_json(path: Path, identity: str | None = None) -> Config:
    """Read the mapping in a JSON file, and check its digest if it has one.

    A digest is required if the identity of a run is given. Otherwise the identity is read from the
    file's folder. In a folder without a run, digests are not checked.

    Raises:
        ValueError: if the file does not hold a mapping, or the digest is wrong.
    """
    content = path.read_bytes()
    try:
        value = {**json.loads(content)}
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{path} is damaged") from None
    if _DIGEST in value and identity is None:
        identity = identity_beside(path)
    value.pop(_DIGEST, None)
    if identity is not None and not has_digest(content, identity):
        raise ValueError(f"{path} is damaged or of another run: its digest is wrong")
    return value


def identity_beside(path: Path) -> str | None:
    """Return the identity of the run in a file's folder; ``None`` if it is not a run folder."""
    folder = RunFolder(path.parent, "")
    return folder.identity if folder.config_file.is_file() else None

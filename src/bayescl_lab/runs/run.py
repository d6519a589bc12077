"""The steps of every run: start or resume, carry out, write the result."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger
from typing_extensions import Self, TypedDict

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.loop import Progress, Pulse
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.reading import read_checkpoint
from bayescl_lab.runs.settings import StoredSettings

Result = dict[str, Any]
"""The content of ``result.json``."""


AnySettings = TypeVar("AnySettings", bound=StoredSettings)

Work = Callable[[RunFolder], Result]
"""Carries out the remaining work in a run's folder and returns its figures without provenance."""


class Watching(TypedDict, total=False):
    """How a run is monitored and saved; affects only its seconds.

    Attributes:
        checkpoint_every: epochs between checkpoints; default: 1.
        progress: called after every epoch.
        pulse: called with the progress within an epoch.
        loggers: Lightning's, given every row of ``metrics.csv``.
    """

    checkpoint_every: int
    progress: Progress | None
    pulse: Pulse | None
    loggers: Sequence[Logger]


def run_in_folder(
    out: Path,
    kind: str,
    settings: StoredSettings,
    begin: Callable[[], Work],
    *,
    resume: bool = False,
    what: str = "run",
    writes: bool = True,
) -> Result:
    """Carry out a run in its folder, from the start or from where it stopped.

    Args:
        out: the folder.
        kind: the kind of run: the command that makes it.
        settings: settings that the folder must match.
        begin: checks the input and returns the work to do. A new folder is created only afterwards.
        resume: whether to continue the run in ``out``; a finished run is left unchanged. Otherwise
            ``out`` must not exist or be empty.
        what: the kind of run in messages.
        writes: whether this process writes. Other processes of a run do its work and return
            nothing.

    Returns:
        The content of ``result.json``: the result of the work and its provenance.

    Raises:
        ValueError: if the input is bad, ``out`` cannot hold the run or holds another one.
    """
    origin = provenance()  # of the code that runs, whatever the checkout holds at the end
    if resume:
        folder = RunFolder.open(out, kind)
        # Settings younger than the folder stand there by their defaults.
        stored = type(settings).from_config(folder.config())
        changed = stored.as_config() != settings.as_config()
        if changed and not settings.continues(stored):
            raise ValueError(f"{out} holds a {what} with other settings")
        if folder.is_finished and not changed:
            return folder.read_result() if writes else {}
        work = begin()
        if writes:
            folder.sweep()
            if changed:
                folder.go_on(settings.as_config())
    else:
        work = begin()
        # The other processes of a run may come before or after the one that writes.
        folder = RunFolder(out, kind)
        if writes:
            folder = RunFolder.create(out, kind, settings.as_config())
    try:
        figures = work(folder)
    except Exception:
        # Nothing was learnt yet: the folder would only be in the way of the corrected command.
        if writes and not resume and all(entry.is_file() for entry in folder.path.iterdir()):
            shutil.rmtree(folder.path)
        raise
    if not writes:
        return {}
    result = {**figures, **origin}
    folder.write_result(result)
    return result


class Batches(Protocol):
    """The training batches of a run; one pass is an epoch."""

    def __len__(self) -> int:
        """Steps of an epoch."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch."""
        ...


class TrainedRun(ABC, Generic[AnySettings]):
    """A run with a model, ready to train or to be used.

    All input errors are raised when it is created, before a folder exists.

    Attributes:
        kind: the kind of run: the command that makes it.
        settings_type: the class of its settings.
        settings: the settings of the run.
        model: the module that trains.
        batches: the training batches; one pass is an epoch.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type[StoredSettings]]
    settings: AnySettings
    model: pl.LightningModule
    batches: Batches

    @abstractmethod
    def __init__(self, settings: AnySettings, **given: Any) -> None: ...

    @classmethod
    @abstractmethod
    def recalled(cls, folder: RunFolder, data: str | None = None) -> dict[str, Any]:
        """Arguments to recreate the run of a folder with the data it was trained on.

        Args:
            folder: of the run.
            data: other data to evaluate on; None for the run's own.

        Returns:
            Arguments besides the settings; empty if the folder does not record its data.

        Raises:
            ValueError: if the data changed since.
        """

    @classmethod
    def kept(
        cls, path: Path, *, data: str | None = None, **given: Any
    ) -> tuple[RunFolder, Self, int]:
        """Open a run's folder with the weights behind its figures.

        Args:
            path: the run folder; the run may still be going on.
            data: other data to evaluate on; None for the run's own.
            **given: what the run was given besides its settings.

        Returns:
            The folder, the run with its weights, and how many whole epochs they saw.

        Raises:
            ValueError: if the folder holds no run of this kind or no usable checkpoint yet, or
                the run's data cannot be used or changed since.
        """
        folder = RunFolder.open(path, cls.kind)
        settings: Any = cls.settings_type.from_config(folder.config())
        checkpoint = folder.kept_checkpoint()
        run = cls(settings, **cls.recalled(folder, data), **given)
        return folder, run, run.load(checkpoint)

    def load(self, checkpoint: Path) -> int:
        """Load the weights of a checkpoint and return how many whole epochs they saw.

        Raises:
            ValueError: if it is missing, damaged or belongs to another model.
        """
        content = read_checkpoint(checkpoint)
        try:
            self.model.load_state_dict(content["state_dict"])
        except (RuntimeError, KeyError, ValueError, TypeError):
            raise ValueError(
                f"the checkpoint {checkpoint} belongs to another model than these settings describe"
            ) from None
        if "global_step" in content:
            return int(content["global_step"]) // len(self.batches)
        return int(content.get("epoch", -1)) + 1

"""The steps of a run: open or create its folder, train, evaluate, write the result."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from bayescl_lab._types import Config, Values
from bayescl_lab.runs.folder import Kind, RunFolder, identity_beside, write_json
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.result import Result, Score
from bayescl_lab.runs.settings import TrainedSettings
from bayescl_lab.runs.weights import read_checkpoint

if TYPE_CHECKING:
    import lightning.pytorch as pl

    from bayescl_lab.runs.loop import Journal

AnySettings = TypeVar("AnySettings", bound=TrainedSettings)


class RunStart:
    """A new or resumed run in its folder.

    If there are ``results``, the run is finished. Otherwise check the input, do the remaining work
    inside :meth:`work`, which creates the folder, and call :meth:`finish`.

    Args:
        out: Run folder.
        kind: Command that started the run, such as ``train images``.
        config: Settings as plain values.
        resume: Whether to resume the run in the folder.

    Raises:
        ValueError: if ``out`` does not hold a run to resume, or the settings differ.
    """

    def __init__(self, out: Path, kind: str, config: Values, *, resume: bool) -> None:
        self._origin = provenance()  # read at the start, because the checkout may change
        self._config = config = json.loads(json.dumps(config))  # tuples become lists, as in files
        self._resume = resume
        self.folder = RunFolder(out, kind)
        self.results: list[Result] = []
        if not resume:
            return
        before, now = dict(_flat(RunFolder.open(out, kind).config())), dict(_flat(config))
        changed = "; ".join(
            f"{name} = {before.get(name)}, got {now.get(name)}"
            for name in sorted({**before, **now})
            if before.get(name) != now.get(name)
        )
        if changed:
            raise ValueError(f"cannot resume {out}: a resumed run keeps its settings: {changed}")
        if self.folder.result_file.is_file():
            self.results = Result.read_all(self.folder.result_file, self.folder.identity)

    @contextmanager
    def work(self) -> Iterator[RunFolder]:
        """Create the folder, or remove temporary files from it, for the work of the block.

        If the block fails before the first checkpoint, a new folder is removed again. The
        corrected command can then use it.
        """
        folder = self.folder
        if not self._resume:
            RunFolder.create(folder.path, folder.kind, self._config)
        else:
            folder.sweep()
        try:
            yield folder
        except Exception:
            if not self._resume and all(entry.is_file() for entry in folder.path.iterdir()):
                shutil.rmtree(folder.path)
            raise

    def finish(self, *results: Result, **origin: object) -> list[Result]:
        """Write results with their provenance to ``result.json``, and return them."""
        origin = {**self._origin, **origin}
        return write_results(self.folder.result_file, *results, origin=origin)


def _flat(config: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the settings of nested mappings with dots in their names."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class TrainedRun(ABC, Generic[AnySettings]):
    """A run with a model.

    Subclasses read the data and build the ``model`` and, for training, the ``batches`` of an epoch.
    Input errors are raised before a folder is created. With several processes, only the process of
    ``rank`` 0 writes.
    """

    kind: ClassVar[Kind]
    settings_type: ClassVar[type[TrainedSettings]]
    model: pl.LightningModule
    batches: Any

    def __init__(self, settings: AnySettings, **_: object) -> None:
        self.settings = settings
        self.rank, local_rank = settings.this_process()
        self.device = settings.torch_device(local_rank)

    @classmethod
    @abstractmethod
    def restore(cls, folder: RunFolder, data: str | None = None) -> Config:
        """Return the arguments that recreate a run with its data, or with data to evaluate on.

        They are empty if the folder has no record yet. Raises ``ValueError`` if the data changed.
        """

    @abstractmethod
    def write_record(self, folder: RunFolder) -> None:
        """Record the run's data in its folder, if there is no record yet."""

    @abstractmethod
    def start_from(self, path: Path) -> None:
        """Load the weights of another run, given by the setting ``init``."""

    @abstractmethod
    def results(self) -> Result:
        """Evaluate the trained model, and return the result without epochs and seconds."""

    @abstractmethod
    def evaluation(self, part: str | None) -> Result:
        """Evaluate the current model; ``part`` is other data. Raises if there are no labels."""

    def fit(self, folder: RunFolder, **options: Any) -> Journal:
        """Train with :func:`~bayescl_lab.runs.loop.fit_in_folder` and its further options."""
        from bayescl_lab.runs.loop import fit_in_folder

        settings = self.settings
        several = {"devices": settings.devices, "num_nodes": settings.num_nodes}
        options |= {"epochs": settings.epochs, "device": self.device, **several}
        return fit_in_folder(self.model, self.batches, folder, **options)

    @classmethod
    def reopen(
        cls, path: Path, *, data: str | None = None, **given: Any
    ) -> tuple[RunFolder, Self, int]:
        """Open a run, finished or not; return its folder, the run and its number of epochs.

        The run has the weights of its last checkpoint. It is evaluated on ``data``, by default its
        own data.
        """
        folder = RunFolder.open(path, cls.kind)
        settings: Any = cls.settings_type.from_config(folder.config())
        folder.kept_checkpoint()  # raises if there is none, before the data are read
        run = cls(settings, **cls.restore(folder, data), **given)
        return folder, run, run.load(folder)

    @classmethod
    def evaluate_in(cls, path: Path, *, data: str | None = None, **given: Any) -> Result:
        """Evaluate the last checkpoint of a run, and write ``evaluation.json``.

        Args:
            path: Run folder of a run, finished or not.
            data: Other data to evaluate on, without the interactions of training. Default: the data
                of the run.
            **given: Further arguments of the class, such as the custom ``encoder`` of the run.
        """
        folder, run, epochs = cls.reopen(path, data=data, **given)
        result = run.evaluation(data)
        rows = {name: replace(row, epochs=epochs) for name, row in result.rows.items()}
        file = folder.path / "evaluation.json"
        return write_results(file, replace(result, rows=rows), origin=provenance())[0]

    @classmethod
    def train(
        cls,
        settings: AnySettings,
        out: Path,
        *,
        resume: bool = False,
        progress: Callable[[float, float | None], None] | None = None,
        checkpoint_every: int = 1,
        **given: Any,
    ) -> Result:
        """Train, evaluate, and write model and metrics to a run folder.

        A resumed run ends with exactly the weights of an uninterrupted run; on a GPU, up to
        floating-point summation order. With several devices, one process per device calls this
        function. All processes except the first return an empty result.

        Args:
            settings: Settings of the run.
            out: Run folder.
            resume: Whether to resume the run in ``out`` from its last checkpoint, or from the start
                if there is none. A finished run is not changed. ``settings.data`` may be a new
                location of the same images or arrays. If False, ``out`` must be empty or must not
                exist.
            progress: See :class:`~bayescl_lab.runs.loop.Journal`.
            checkpoint_every: Number of epochs between checkpoints.
            **given: Further arguments of the class, such as a custom ``encoder``. Pass them again
                to resume the run.

        Returns:
            The result, as in ``result.json``.

        Raises:
            ValueError: if the data cannot be used with these settings, or ``out`` is not writable
                or holds another run or a damaged checkpoint.
        """
        if resume:
            settings = cls.relocated(settings, out, given)
        writes = settings.this_process().rank == 0
        start = RunStart(out, cls.kind, settings.as_config(), resume=resume)
        if start.results:
            return start.results[0] if writes else Result()
        if resume:
            given |= cls.restore(start.folder)
        run = cls(settings, **given)  # raises if the data differ from the record
        _ = run.batches  # raises on invalid settings, before the folder is created
        begun = start.folder.checkpoint.is_file()
        if not begun and settings.init is not None:
            run.start_from(Path(settings.init))
        with start.work() if writes else nullcontext(start.folder) as folder:
            if begun:
                run.load(folder)  # raises if it is damaged or of another model
            if writes:
                run.write_record(folder)
            rows = run.fit(folder, progress=progress, checkpoint_every=checkpoint_every).rows
            if not writes:
                return Result()
            result = run.results()
            seconds = Score(median_high(row["seconds"] for row in rows))
            done = replace(result.row, seconds=seconds, epochs=len(rows))
            result = replace(result, rows=dict.fromkeys(result.rows, done))
        return start.finish(result)[0]

    @classmethod
    def relocated(cls, settings: AnySettings, out: Path, given: Values) -> AnySettings:
        """Record a new location of the data of a run to resume; return the run's settings."""
        del out, given
        return settings

    def load(self, folder: RunFolder) -> int:
        """Load the weights of the last checkpoint, and return its number of epochs."""
        content = read_checkpoint(folder)
        try:
            self.model.load_state_dict(content["state_dict"])
        except (RuntimeError, KeyError, ValueError, TypeError):
            raise ValueError(
                f"the checkpoint {folder.checkpoint} does not fit the model of these settings"
            ) from None
        return int(content["epoch"]) + 1


def write_results(file: Path, *results: Result, origin: Values) -> list[Result]:
    """Write results with their provenance to a JSON file, and return them."""
    done = [replace(result, origin=origin) for result in results]
    stored = [result.stored() for result in done]
    content = stored[0] if len(stored) == 1 else {"results": stored}
    write_json(file, content, identity_beside(file))
    return done

"""One trained recommender: train, resume, evaluate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from typing_extensions import Unpack

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.ranking.batches import PairBatches
from bayescl_lab.ranking.candidates import (
    AllItems,
    CandidateSource,
    InBatchCandidates,
    PerPairCandidates,
    SharedCandidates,
)
from bayescl_lab.ranking.encoders import build_encoder
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.ranking.baselines import baselines_beside
from bayescl_lab.runs.ranking.matrices import write_embeddings
from bayescl_lab.runs.ranking.memory import RankingMemory
from bayescl_lab.runs.ranking.settings import KIND, PAPER, RankingSettings
from bayescl_lab.runs.ranking.watch import (
    Rows,
    Watch,
    best_epoch,
    judged_figures,
    metrics_and_users,
    stopping_epoch,
)
from bayescl_lab.runs.run import Result, TrainedRun, Watching, Work, run_in_folder
from bayescl_lab.runs.weights import read_weights, write_weights

__all__ = ["KIND", "PAPER_NOTE", "RankingRun", "train_ranking"]

PAPER_NOTE = "best epoch on the test part, for each metric separately, as the paper does: inflated"
"""Note on results of the paper's protocol."""


class RankingRun(TrainedRun[RankingSettings]):
    """A recommender, ready to train, with its interactions, model and order of batches.

    All input errors are raised here, before a folder exists.

    Args:
        settings: the settings of the run.
        memory: the record of the data in the run's folder; None to read the data.

    Attributes:
        settings: the settings of the run.
        memory: the interactions by part, and their files.
        parts: the interactions to evaluate on; lists leave out those in its ``train``.
        watched: the interactions that choose the epoch, or None.
        train: the training interactions.
        model: the module that trains.
        is_first: whether this process writes, if several train together.
        device: the device of training.

    Raises:
        ValueError: if the data cannot be used with these settings.
    """

    kind = KIND
    settings_type = RankingSettings
    model: RankingModule

    def __init__(self, settings: RankingSettings, *, memory: RankingMemory | None = None) -> None:
        self.settings = settings
        own = settings.watch_every > 0 and settings.protocol != PAPER
        if memory is None:
            memory = RankingMemory.of(settings.data, settings.evaluate_on, watches=own)
        self.memory = memory
        self.parts: RankingParts = memory.parts(settings.evaluate_on)
        self.watched: RankingParts | None = None  # chooses the epoch
        if settings.watch_every:
            self.watched = memory.parts("validation") if own else self.parts
        self.train: Interactions = (self.watched or self.parts).train
        together = settings.processes
        rank, local_rank = together.this()
        self.is_first = rank == 0
        self.device = settings.torch_device(local_rank)
        self.batches = PairBatches(
            self.train,
            settings.batch_size,
            settings.seed,
            device=self.device,
            rank=rank,
            num_ranks=together.count,
        )
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            encoder = build_encoder(settings.encoder, self.train, vars(settings))
        steps = settings.epochs * len(self.batches)
        self.model = RankingModule(
            encoder=encoder,
            loss=settings.loss.build(
                score=settings.score, density=self.train.density, gather=together.count > 1
            ),
            candidates=_candidates(settings, self.train),
            learning_rate=settings.lr,
            weight_decay=settings.weight_decay,
            total_steps=steps if settings.schedule == "cosine" else None,
            item_norm_exponent=settings.item_norm_exponent,
            seed=settings.seed,
        )

    @classmethod
    def recalled(cls, folder: RunFolder, data: str | None = None) -> dict[str, Any]:
        """The interactions recorded in the folder, or others to evaluate on."""
        memory = RankingMemory.read(folder)
        if memory is None:
            if data is not None:
                raise ValueError(
                    f"{folder.path} has no record of its data: other data cannot be used"
                )
            return {}
        if data is None:
            memory.refuse_changes()
            return {"memory": memory}
        reading = RankingSettings.from_config(folder.config()).data
        return {"memory": memory.on(replace(reading, data=data, test_data=None))}

    def start_from(self, path: Path) -> None:
        """Load another run's embeddings of the users and items that both runs know.

        Raises:
            ValueError: if the folder does not hold a recommender with weights, or its embeddings
                have another length.
        """
        folder = RunFolder.open(path, KIND)
        memory = RankingMemory.read(folder)
        if memory is None:
            raise ValueError(f"init: {path} has no record of its users and items")
        state = read_weights(folder)
        encoder = self.model.encoder
        tables = {"user_table": encoder.user_table, "item_table": encoder.item_table}
        for (name, table), rows in zip(tables.items(), memory.rows_of(self.train), strict=True):
            source = state[f"encoder.{name}"]
            if source.shape[1] != table.shape[1]:
                raise ValueError(
                    f"dim must be {source.shape[1]} as in {path} to start from its embeddings, "
                    f"got {table.shape[1]}"
                )
            known = torch.from_numpy(rows >= 0)
            with torch.no_grad():
                table[known] = source[torch.from_numpy(rows)[known]].to(table)

    def judge(self) -> dict[str, float]:
        """Evaluate the current recommender: metrics, counts of users, and seconds."""
        self.model.to(self.device)
        started = time.perf_counter()
        figures = judged_figures(self.model.scorer(), self.parts)
        return {**figures, "seconds": time.perf_counter() - started}

    def sizes(self) -> dict[str, int]:
        """Numbers of users, items and interactions by part."""
        return {
            "users": self.train.num_users,
            "items": self.train.num_items,
            "train": self.train.num_interactions,
            self.settings.evaluate_on: self.parts.evaluation.num_interactions,
        }

    def carry_out(self, folder: RunFolder, **watching: Unpack[Watching]) -> Result:
        """Train in the run's folder, from its last checkpoint if there is one, and evaluate."""
        if folder.checkpoint.is_file():
            self.load(folder.checkpoint)
        elif self.is_first:
            self.memory.write(folder, self.settings.data)
        settings = self.settings
        # A run interrupted between its early stop and its result must not train further.
        stopped = stopping_epoch(folder.read_metrics(), settings.patience)
        watch = None
        if self.watched is not None:
            watch = Watch(
                self.watched,
                every=settings.watch_every,
                patience=settings.patience,
                epochs=settings.epochs,
                best=folder.best_checkpoint,
            )
        journal = fit_in_folder(
            self.model,
            self.batches,
            folder,
            epochs=stopped or settings.epochs,
            device=self.device,
            devices=settings.processes.devices,
            num_nodes=settings.processes.num_nodes,
            share_buffers=False,  # known items and the graph do not change
            judge=watch,
            **watching,
        )
        if not self.is_first:
            return {}
        chosen = best_epoch(journal.rows) if self.watched else None
        if chosen is not None:
            self.load(folder.best_checkpoint)
        judged = self.judge()
        write_embeddings(folder, self.model.scorer(), chosen or len(journal.rows))
        write_weights(folder, self.model.state_dict())
        return {
            "settings": settings.as_config(),
            "seed": settings.seed,
            "epochs": len(journal.rows),
            "best_epoch": chosen,
            "protocol": settings.protocol,
            "evaluated_on": settings.evaluate_on,
            **_figures(judged, journal.rows if settings.protocol == PAPER else ()),
            "interactions": self.sizes(),
            "density": self.train.density,
            "report": dict(self.parts.report),
            "seconds_per_epoch": journal.seconds_per_epoch(),
            "evaluation_seconds": judged["seconds"],
            "loss": journal.rows[-1]["loss"],
        }


def train_ranking(
    settings: RankingSettings,
    out: Path,
    *,
    resume: bool = False,
    beside: bool = False,
    **watching: Unpack[Watching],
) -> Result:
    """Train a recommender, evaluate it by full ranking and write both to a run folder.

    A resumed run ends with exactly the weights of an uninterrupted one; on a GPU, up to the order
    in which kernels add. Training on several devices gives the same weights as on one, up to
    rounding. A process on each device calls this function; all but the first return an empty
    result.

    Args:
        settings: the settings of the run.
        out: the run folder.
        resume: continue the run in ``out`` from its last checkpoint, or from the start if there is
            none. A finished run is not changed. If False, ``out`` must not exist or be empty.
        beside: whether to evaluate popularity and EASE too; see
            :func:`~bayescl_lab.runs.ranking.baselines.baselines_beside`.
        **watching: callbacks and saving; see :class:`~bayescl_lab.runs.run.Watching`.

    Returns:
        The content of ``result.json``: settings, metrics, seconds per epoch, and provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is not writable or
            holds another run or a damaged checkpoint.
    """

    def begin() -> Work:
        folder = RunFolder(out, KIND)
        given: dict[str, Any] = {}
        if resume:
            _refuse_more_after_early_stop(settings, folder)
            given = RankingRun.recalled(folder)
        run = RankingRun(settings, **given)
        if settings.init is not None and not folder.checkpoint.is_file():
            run.start_from(Path(settings.init))

        def carry_out(folder: RunFolder) -> Result:
            result = run.carry_out(folder, **watching)
            if result and beside:
                result["baselines"] = baselines_beside(run.parts)
            return result

        return carry_out

    writes = settings.processes.this().rank == 0
    return run_in_folder(out, KIND, settings, begin, resume=resume, writes=writes)


def _refuse_more_after_early_stop(settings: RankingSettings, folder: RunFolder) -> None:
    """Refuse more epochs for a run that stopped early."""
    stopped = stopping_epoch(folder.read_metrics(), settings.patience)
    if stopped is not None and settings.epochs > folder.config()["epochs"]:
        raise ValueError(
            f"epochs: the run in {folder.path} stopped early, after {stopped}, so more epochs "
            "change nothing: start a new run from its weights with --init"
        )


def _figures(judged: Mapping[str, float], rows: Rows) -> dict[str, Any]:
    """Metrics and counts of users; with rows, each metric at its own best epoch, and a note."""
    figures = metrics_and_users(judged)
    if not rows:
        return figures
    epochs = {name: best_epoch(rows, name) for name in figures["metrics"]}
    by_epoch = {int(row["epoch"]): row for row in rows}
    best = {name: by_epoch[epoch][name] for name, epoch in epochs.items() if epoch is not None}
    return {**figures, "metrics": best, "epochs_by_metric": epochs, "note": PAPER_NOTE}


def _candidates(settings: RankingSettings, train: Interactions) -> CandidateSource:
    """The source of candidates."""
    masked, extra = settings.mask_known, settings.extra_positives
    if settings.candidates == "in-batch":
        return InBatchCandidates(train, mask_known=masked)
    if settings.candidates == "all":
        return AllItems(train, mask_known=masked, extra_positives=extra)
    drawn = SharedCandidates if settings.candidates == "shared" else PerPairCandidates
    return drawn(train, settings.count, mask_known=masked, extra_positives=extra)

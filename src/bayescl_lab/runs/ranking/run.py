"""One trained recommender: train and resume."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
from bayescl_lab.runs.journal import Journal
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.ranking.baselines import (
    evaluate_baselines,
    ranking_figures,
    sizes,
)
from bayescl_lab.runs.ranking.record import RankingRecord, write_embeddings
from bayescl_lab.runs.ranking.settings import KIND, PAPER, RankingSettings
from bayescl_lab.runs.ranking.watch import Rows, Watch, best_epoch, stopping_epoch
from bayescl_lab.runs.run import Result, TrainedRun, Watching
from bayescl_lab.runs.weights import read_weights

__all__ = ["KIND", "PAPER_NOTE", "RankingRun", "train_ranking"]

PAPER_NOTE = "best epoch on the test part, for each metric separately, as the paper does: inflated"
"""Note on results of the paper's protocol."""


class RankingRun(TrainedRun[RankingSettings]):
    """A recommender, ready to train, with its interactions, model and order of batches.

    Args:
        settings: the settings of the run.
        record: the record of the data in the run's folder; None to read the data.
        baselines: whether to evaluate popularity and EASE too.

    Attributes:
        record: the interactions by part, and their files.
        parts: the interactions to evaluate on; lists leave out those in its ``train``.
        watched: the interactions that choose the epoch, or None.
        interactions: the training interactions.
    """

    kind = KIND
    settings_type = RankingSettings
    model: RankingModule
    batches: PairBatches

    def __init__(
        self,
        settings: RankingSettings,
        *,
        record: RankingRecord | None = None,
        baselines: bool = False,
    ) -> None:
        self.settings = settings
        self.baselines = baselines
        own = settings.watch_every > 0 and settings.protocol != PAPER
        if record is None:
            record = RankingRecord.of(settings.data, settings.evaluate_on, watches=own)
        self.record = record
        self.parts: RankingParts = record.parts(settings.evaluate_on)
        self.watched: RankingParts | None = None  # chooses the epoch
        if settings.watch_every:
            self.watched = record.parts("validation") if own else self.parts
        self.interactions: Interactions = (self.watched or self.parts).train
        together = settings.processes
        rank, local_rank = together.this()
        self.is_first = rank == 0
        self.device = settings.torch_device(local_rank)
        self.batches = PairBatches(
            self.interactions,
            settings.batch_size,
            settings.seed,
            device=self.device,
            rank=rank,
            num_ranks=together.count,
        )
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            encoder = build_encoder(settings.encoder, self.interactions, vars(settings))
        steps = settings.epochs * len(self.batches)
        self.model = RankingModule(
            encoder=encoder,
            loss=settings.loss.build(
                score=settings.score, density=self.interactions.density, gather=together.count > 1
            ),
            candidates=_candidates(settings, self.interactions),
            learning_rate=settings.lr,
            weight_decay=settings.weight_decay,
            total_steps=steps if settings.schedule == "cosine" else None,
            item_norm_exponent=settings.item_norm_exponent,
            seed=settings.seed,
        )

    @classmethod
    def restore(cls, folder: RunFolder, data: str | None = None) -> dict[str, Any]:
        """The interactions recorded in the folder, or others to evaluate on."""
        if data is None and not folder.data_file.is_file():
            return {}
        record = RankingRecord.read(folder)
        if data is None:
            record.refuse_changes()
            return {"record": record}
        return {"record": record.on(data, folder.config())}

    def write_record(self, folder: RunFolder) -> None:
        """Record the interactions in the run's folder."""
        self.record.write(folder, self.settings.data)

    def start_from(self, path: Path) -> None:
        """Load another run's embeddings of the users and items that both runs know."""
        folder = RunFolder.open(path, KIND)
        record = RankingRecord.read(folder)
        state = read_weights(folder)
        encoder = self.model.encoder
        tables = {"user_table": encoder.user_table, "item_table": encoder.item_table}
        rows_by_table = record.rows_of(self.interactions)
        for (name, table), rows in zip(tables.items(), rows_by_table, strict=True):
            source = state[f"encoder.{name}"]
            if source.shape[1] != table.shape[1]:
                raise ValueError(
                    f"dim must be {source.shape[1]} as in {path} to start from its embeddings, "
                    f"got {table.shape[1]}"
                )
            known = torch.from_numpy(rows >= 0)
            with torch.no_grad():
                table[known] = source[torch.from_numpy(rows)[known]].to(table)

    def fit(self, folder: RunFolder, **watching: Unpack[Watching]) -> Journal:
        """Train in the run's folder, from its last checkpoint if there is one."""
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
        return fit_in_folder(
            self.model,
            self.batches,
            folder,
            epochs=stopped or settings.epochs,
            device=self.device,
            devices=settings.processes.devices,
            num_nodes=settings.processes.num_nodes,
            share_buffers=False,  # known items and the graph do not change
            evaluate=watch,
            **watching,
        )

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the current recommender: metrics, and counts of users."""
        self.model.to(self.device)
        return ranking_figures(self.model.scorer(), self.parts)

    def figures(self, folder: RunFolder, journal: Journal) -> Result:
        """Evaluate the best epoch, or else the last, and write its embeddings."""
        settings, rows = self.settings, journal.rows
        chosen = best_epoch(rows) if self.watched else None
        if chosen is not None:
            self.load(folder.best_checkpoint)
        started = time.perf_counter()
        figures = self.evaluate()
        seconds = time.perf_counter() - started
        write_embeddings(folder, self.model.scorer(), chosen or len(rows))
        if settings.protocol == PAPER:
            figures |= _at_best_epochs(figures["metrics"], rows)
        return {
            "settings": settings.as_config(),
            "seed": settings.seed,
            "epochs": len(rows),
            "best_epoch": chosen,
            "protocol": settings.protocol,
            "evaluated_on": settings.evaluate_on,
            **figures,
            "interactions": sizes(self.interactions, self.parts),
            "density": self.interactions.density,
            "report": dict(self.parts.report),
            "seconds_per_epoch": journal.seconds_per_epoch(),
            "evaluation_seconds": seconds,
            "loss": rows[-1]["loss"],
            **({"baselines": evaluate_baselines(self.parts)} if self.baselines else {}),
        }


def train_ranking(
    settings: RankingSettings,
    out: Path,
    *,
    resume: bool = False,
    baselines: bool = False,
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
        baselines: whether to evaluate popularity and EASE too; see
            :func:`~bayescl_lab.runs.ranking.baselines.evaluate_baselines`.
        **watching: callbacks and saving; see :class:`~bayescl_lab.runs.run.Watching`.

    Returns:
        The content of ``result.json``: settings, metrics, seconds per epoch, and provenance.
    """
    if resume:
        _refuse_more_after_early_stop(settings, RunFolder.open(out, KIND))
    return RankingRun.train(settings, out, resume=resume, watching=watching, baselines=baselines)


def _refuse_more_after_early_stop(settings: RankingSettings, folder: RunFolder) -> None:
    """Refuse more epochs for a run that stopped early."""
    stopped = stopping_epoch(folder.read_metrics(), settings.patience)
    if stopped is not None and settings.epochs > folder.config()["epochs"]:
        raise ValueError(
            f"epochs: the run in {folder.path} stopped early, after {stopped}, so more epochs "
            "change nothing: start a new run from its weights with --init"
        )


def _at_best_epochs(metrics: Mapping[str, float], rows: Rows) -> dict[str, Any]:
    """Each metric at its own best epoch, and a note."""
    epochs = {name: best_epoch(rows, name) for name in metrics}
    by_epoch = {int(row["epoch"]): row for row in rows}
    best = {name: by_epoch[epoch][name] for name, epoch in epochs.items() if epoch is not None}
    return {"metrics": best, "epochs_by_metric": epochs, "note": PAPER_NOTE}


def _candidates(settings: RankingSettings, train: Interactions) -> CandidateSource:
    """The source of candidates."""
    masked, extra = settings.mask_known, settings.extra_positives
    if settings.candidates == "in-batch":
        return InBatchCandidates(train, mask_known=masked)
    if settings.candidates == "all":
        return AllItems(train, mask_known=masked, extra_positives=extra)
    drawn = SharedCandidates if settings.candidates == "shared" else PerPairCandidates
    return drawn(train, settings.count, mask_known=masked, extra_positives=extra)

"""One trained recommender: train, resume, judge."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger

from bayescl._randomness import Purpose, derived_seed, seeded
from bayescl.recsys.batches import PairBatches
from bayescl.recsys.candidates import AllItems, CandidateSource, InBatchCandidates
from bayescl.recsys.drawn_candidates import PerPairCandidates, SharedCandidates
from bayescl.recsys.encoders import build_encoder
from bayescl.recsys.interactions import Interactions, RankingParts
from bayescl.recsys.metrics import evaluate_ranking
from bayescl.recsys.module import RankingModule
from bayescl.runs.checkpoints import read_checkpoint
from bayescl.runs.folder import RunFolder
from bayescl.runs.loop import Progress, Pulse, fit_in_folder
from bayescl.runs.provenance import provenance
from bayescl.runs.ranking.settings import PAPER, RankingSettings
from bayescl.runs.ranking.watch import Rows, Watch, best_epoch, stopping_epoch

KIND = "train ranking"
"""The kind of run: the command that makes it."""

PAPER_NOTE = "best epoch on the test part, for each metric separately, as the paper does: inflated"
"""What marks a result of the paper's protocol."""


class RankingRun:
    """A recommender, ready to train: its interactions, its model and the order of its batches.

    Everything that could be wrong with the input is found here, before a folder exists.

    Args:
        settings: the settings of the run.

    Attributes:
        settings: the settings of the run.
        parts: what the result is judged by; lists leave its ``train`` out.
        watched: what chooses the epoch, or None.
        train: the interactions that training sees.
        model: the module that trains.

    Raises:
        ValueError: if the data cannot be used with these settings.
    """

    def __init__(self, settings: RankingSettings) -> None:
        self.settings = settings
        self.parts: RankingParts = settings.data.load(settings.evaluate_on)
        self.watched = self._watched_parts()
        self.train: Interactions = (self.watched or self.parts).train
        device = settings.torch_device()
        self.batches = PairBatches(self.train, settings.batch_size, settings.seed, device=device)
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            encoder = build_encoder(settings.encoder, self.train, vars(settings))
        steps = settings.epochs * len(self.batches)
        self.model = RankingModule(
            encoder=encoder,
            loss=settings.loss.build(score=settings.score, density=self.train.density),
            candidates=_candidates(settings, self.train),
            learning_rate=settings.lr,
            weight_decay=settings.weight_decay,
            total_steps=steps if settings.schedule == "cosine" else None,
            item_norm_exponent=settings.item_norm_exponent,
            seed=settings.seed,
        )

    def _watched_parts(self) -> RankingParts | None:
        """What chooses the epoch."""
        settings = self.settings
        if settings.watch_every == 0:
            return None
        if settings.protocol == PAPER or settings.evaluate_on == "validation":
            return self.parts
        return settings.data.load("validation")

    def load(self, checkpoint: Path) -> int:
        """Take the weights of a checkpoint and return how many epochs they saw.

        Raises:
            ValueError: if it is missing, damaged or of another model.
        """
        content = read_checkpoint(checkpoint)
        try:
            self.model.load_state_dict(content["state_dict"])
        except (RuntimeError, KeyError, ValueError, TypeError):
            raise ValueError(f"the checkpoint {checkpoint} is of another model") from None
        return int(content.get("epoch", -1)) + 1

    def judge(self) -> dict[str, float]:
        """Judge the recommender as it is now: figures, counts of users, and seconds."""
        self.model.to(self.settings.torch_device())
        started = time.perf_counter()
        figures = evaluate_ranking(self.model.scorer(), self.parts)
        return {**figures, "seconds": time.perf_counter() - started}

    def sizes(self) -> dict[str, int]:
        """Numbers of users, items and interactions by part."""
        return {
            "users": self.train.num_users,
            "items": self.train.num_items,
            "train": self.train.num_interactions,
            self.settings.evaluate_on: self.parts.evaluation.num_interactions,
        }


def best_checkpoint(folder: RunFolder) -> Path:
    """Where the weights of the best epoch are kept, in runs that choose one."""
    return folder.checkpoint.with_name("best.ckpt")


def kept_checkpoint(folder: RunFolder) -> Path:
    """The checkpoint that a run's figures are about: of the best epoch, or else of the last.

    Raises:
        ValueError: if there is none yet.
    """
    best = best_checkpoint(folder)
    kept = best if best.is_file() else folder.checkpoint
    if not kept.is_file():
        raise ValueError(f"{folder.path} has no checkpoint yet")
    return kept


def train_ranking(
    settings: RankingSettings,
    out: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 1,
    progress: Progress | None = None,
    pulse: Pulse | None = None,
    loggers: Sequence[Logger] = (),
) -> dict[str, Any]:
    """Train a recommender, judge it by a full ranking and write both into a run folder.

    A resumed run ends with the very weights of an unbroken one; on a GPU, up to the order in
    which its kernels add.

    Args:
        settings: the settings of the run.
        out: the run folder.
        resume: go on with the run in ``out``, from its last checkpoint or, before the first,
            from the start. A finished run is left as it is. Else ``out`` must not exist or be
            empty.
        checkpoint_every: epochs between checkpoints.
        progress: told of every finished epoch.
        pulse: told how an epoch gets on.
        loggers: Lightning's, given every row of ``metrics.csv``.

    Returns:
        What ``result.json`` holds: settings, metrics, seconds per epoch, and provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is no place for
            the run, or holds another run or a damaged checkpoint.
    """
    origin = provenance()  # of the code that trains, whatever the checkout holds at the end
    if resume:
        folder = RunFolder.open(out, KIND)
        # Settings younger than the folder stand there by their defaults.
        if RankingSettings.from_config(folder.config()).as_config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        run = RankingRun(settings)
        if folder.checkpoint.is_file():
            run.load(folder.checkpoint)
    else:
        run = RankingRun(settings)
        folder = RunFolder.create(out, KIND, settings.as_config())

    # A run that was broken between its early stop and its result must not train on.
    stopped = stopping_epoch(folder.read_metrics(), settings.patience)
    journal = fit_in_folder(
        run.model,
        run.batches,
        folder,
        epochs=stopped or settings.epochs,
        device=settings.torch_device(),
        checkpoint_every=checkpoint_every,
        progress=progress,
        pulse=pulse,
        loggers=loggers,
        judge=_watch(run, folder),
    )
    chosen = best_epoch(journal.rows) if run.watched else None
    if chosen is not None:
        run.load(best_checkpoint(folder))
    judged = run.judge()
    result = {
        "settings": settings.as_config(),
        "seed": settings.seed,
        "epochs": len(journal.rows),
        "best_epoch": chosen,
        "protocol": settings.protocol,
        "evaluated_on": settings.evaluate_on,
        **_figures(judged, journal.rows if settings.protocol == PAPER else ()),
        "interactions": run.sizes(),
        "density": run.train.density,
        "report": dict(run.parts.report),
        "seconds_per_epoch": journal.seconds_per_epoch(),
        "evaluation_seconds": judged["seconds"],
        "loss": journal.rows[-1]["loss"],
        **origin,
    }
    folder.write_result(result)
    return result


def _watch(run: RankingRun, folder: RunFolder) -> Watch | None:
    """What looks at the watched part after epochs, if there is one."""
    if run.watched is None:
        return None
    settings = run.settings
    return Watch(
        run.watched,
        every=settings.watch_every,
        patience=settings.patience,
        epochs=settings.epochs,
        best=best_checkpoint(folder),
    )


def _figures(judged: Mapping[str, float], rows: Rows) -> dict[str, Any]:
    """Metrics and counts of users; with rows, each metric at its own best epoch, and a mark."""
    metrics = {name: value for name, value in judged.items() if "@" in name}
    users = {name: int(judged[name]) for name in ("users", "users_left_out")}
    if not rows:
        return {"metrics": metrics, **users}
    epochs = {name: best_epoch(rows, name) for name in metrics}
    by_epoch = {int(row["epoch"]): row for row in rows}
    best = {name: by_epoch[epoch][name] for name, epoch in epochs.items() if epoch is not None}
    return {"metrics": best, **users, "epochs_by_metric": epochs, "note": PAPER_NOTE}


def _candidates(settings: RankingSettings, train: Interactions) -> CandidateSource:
    """Where candidates come from."""
    masked, extra = settings.mask_known, settings.extra_positives
    if settings.candidates == "in-batch":
        return InBatchCandidates(train, mask_known=masked)
    if settings.candidates == "all":
        return AllItems(train, mask_known=masked, extra_positives=extra)
    drawn = SharedCandidates if settings.candidates == "shared" else PerPairCandidates
    return drawn(train, settings.count, mask_known=masked, extra_positives=extra)

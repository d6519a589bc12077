"""Evaluation during training: choose the best epoch, and stop early."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import lightning.pytorch as pl

from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.runs.checkpoints import AtomicCheckpointIO
from bayescl_lab.runs.ranking.baselines import ranking_figures

CRITERION = "ndcg@20"
"""The metric that chooses epochs within a run, and settings between runs."""

Rows = Sequence[Mapping[str, float]]
"""Rows of ``metrics.csv``; only those of evaluated epochs have metrics."""


class Watch:
    """Evaluate a module every few epochs, save the best weights and stop early.

    Its only state is the rows of ``metrics.csv``, so a resumed run decides like an uninterrupted
    one, even if it was killed between a row and its checkpoint. Lightning's ``EarlyStopping`` keeps
    its state in checkpoints.

    Args:
        parts: the interactions to evaluate on.
        every: epochs between evaluations; the last epoch is always evaluated.
        patience: evaluations without improvement after which training stops; 0 never stops.
        epochs: largest number of epochs of the run.
        best: path of the checkpoint with the weights of the best epoch so far.
    """

    def __init__(
        self, parts: RankingParts, *, every: int, patience: int, epochs: int, best: Path
    ) -> None:
        self.parts = parts
        self.every = every
        self.patience = patience
        self.epochs = epochs
        self.best = best

    def __call__(self, trainer: pl.Trainer, rows: Rows) -> dict[str, float]:
        """Return the columns of the epoch that ended."""
        epoch = trainer.current_epoch + 1
        if epoch % self.every and epoch < self.epochs:
            return {}
        module = trainer.lightning_module
        if not isinstance(module, RankingModule):
            raise TypeError(f"a watch needs a RankingModule, got {type(module).__name__}")
        metrics: dict[str, float] = ranking_figures(module.scorer(), self.parts)["metrics"]
        now = {"epoch": float(epoch), **metrics}
        if best_epoch([*rows, now]) == epoch:
            weights = {"state_dict": module.state_dict(), "epoch": trainer.current_epoch}
            AtomicCheckpointIO().save_checkpoint(weights, self.best)
        if stopping_epoch([*rows, now], self.patience) is not None:
            trainer.should_stop = True
        return metrics


def best_epoch(rows: Rows, metric: str = CRITERION) -> int | None:
    """The first epoch with the highest value of a metric; None if none was evaluated."""
    seen = [row for row in rows if metric in row]
    if not seen:
        return None
    return int(max(seen, key=lambda row: row[metric])["epoch"])


def stopping_epoch(rows: Rows, patience: int) -> int | None:
    """The epoch after which patience ran out; None if it has not.

    Example:
        >>> rows = [{"epoch": n, "ndcg@20": value} for n, value in enumerate([0.1, 0.3, 0.2], 1)]
        >>> stopping_epoch(rows, 1), stopping_epoch(rows, 2)
        (3, None)
    """
    if patience == 0:
        return None
    best, waited = -math.inf, 0
    for row in rows:
        if CRITERION not in row:
            continue
        better = row[CRITERION] > best
        best, waited = (row[CRITERION], 0) if better else (best, waited + 1)
        if waited == patience:
            return int(row["epoch"])
    return None

"""Training and resuming of recommenders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab._types import Config
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.runs.folder import Kind, RunFolder
from bayescl_lab.runs.loop import Journal
from bayescl_lab.runs.ranking.baselines import ranking_result
from bayescl_lab.runs.ranking.ranking_record import RankingRecord, seen_pairs
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.run import TrainedRun
from bayescl_lab.runs.weights import read_checkpoint

CRITERION = "ndcg@20"
"""Metric that chooses settings."""


class RankingRun(TrainedRun[RankingSettings]):
    """A run of a recommender with its interactions, model and batches.

    Args:
        settings: Settings of the run.
        record: Record of the data in the run's folder. ``None`` to read the data.
        baselines: Whether to evaluate popularity and EASE too.

    Attributes:
        parts: Interactions for training and evaluation.
    """

    kind = Kind.RANKING
    settings_type = RankingSettings
    model: RankingModule
    batches: UserBatches

    def __init__(
        self,
        settings: RankingSettings,
        *,
        record: RankingRecord | None = None,
        baselines: bool = False,
    ) -> None:
        super().__init__(settings)
        self.baselines = baselines
        if record is None:
            record = RankingRecord.of(settings.data, settings.evaluate_on)
        self.record = record
        self.parts = record.parts(settings.evaluate_on)
        train = self.parts.train
        self.batches = UserBatches(
            train,
            settings.batch_size,
            settings.seed,
            device=self.device,
            rank=self.rank,
            num_ranks=settings.num_processes,
        )
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            kind = ENCODERS[settings.encoder]
            own: Config = {name: vars(settings)[name] for name in kind.own_settings}
            encoder = kind(train, settings.dim, **own)
        self.model = RankingModule(
            encoder=encoder,
            loss=settings.loss.build(
                density=train.density,
                gather=settings.num_processes > 1,
            ),
            candidates=settings.candidates,
            learning_rate=settings.lr,
            weight_decay=settings.weight_decay,
            propagate=settings.propagate,
            item_norm_exponent=settings.item_norm_exponent,
            total_steps=settings.epochs * len(self.batches),
            seed=settings.seed,
        )

    @classmethod
    def restore(cls, folder: RunFolder, data: str | None = None) -> Config:
        """Return the interactions recorded in the folder, with other data to evaluate on."""
        if not folder.has_record:
            return {}
        record = RankingRecord.read(folder)
        return {"record": record if data is None else record.on(data, folder)}

    def write_record(self, folder: RunFolder) -> None:
        """Record the interactions in the run's folder."""
        self.record.write(folder)

    def start_from(self, path: Path) -> None:
        """Load another run's embeddings of the users and items that both runs have.

        Raises ``ValueError`` if the other run was trained on pairs that this run is evaluated on.
        """
        folder = RunFolder.open(path, Kind.RANKING)
        if seen := int(seen_pairs(folder, self.parts.evaluation).sum()):
            raise ValueError(
                f"init: the run in {path} was trained on {seen:,} of the "
                f"{self.parts.evaluation.num_interactions:,} pairs of the "
                f"{self.parts.evaluated_on} split, so the evaluation would be biased. Pass "
                "--split none to train on all pairs without an evaluation. "
                f"`bayescl evaluate {path} --data FILE` evaluates the run in {path} on new data"
            )
        state = read_checkpoint(folder)["state_dict"]
        users, items = RankingRecord.read(folder).rows_of(self.parts.train)
        for name, rows in (("user_table", users), ("item_table", items)):
            table, source = getattr(self.model.encoder, name), state[f"encoder.{name}"]
            if source.shape[1] != table.shape[1]:
                raise ValueError(
                    f"dim must be {source.shape[1]} as in {path} to start from its embeddings, "
                    f"got {table.shape[1]}"
                )
            known = torch.from_numpy(rows >= 0)
            with torch.no_grad():
                table[known] = source[torch.from_numpy(rows)[known]].to(table)

    def fit(self, folder: RunFolder, **options: Any) -> Journal:
        """Train without broadcasting buffers: the module's only buffer, the graph, is constant."""
        return super().fit(folder, share_buffers=False, **options)

    def evaluate(self, part: str | None = None) -> Result:
        """Evaluate the current recommender; see :func:`.ranking_result`."""
        scorer = self.model.to(self.device).scorer()
        more: Config = {"part": part, "baselines": self.baselines}
        return ranking_result(scorer, self.parts, self.settings, **more)

    results = evaluation = evaluate


train_ranking = RankingRun.train
"""Train a recommender; see :meth:`.TrainedRun.train`.

Several devices give the same weights as one, up to rounding.
"""

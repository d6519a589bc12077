"""A recommender as a Lightning module, built from an encoder and a loss."""

from __future__ import annotations

import lightning.pytorch as pl
import torch
from jaxtyping import Float
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR

from bayescl import ContrastiveLoss
from bayescl_lab._fields import Count, Positive, checked
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.batches import UserBatch
from bayescl_lab.ranking.candidates import sampled_loss
from bayescl_lab.ranking.encoders import Encoder
from bayescl_lab.ranking.scorers import EmbeddingScorer


class RankingModule(pl.LightningModule):
    """Training of an encoder of users and items.

    Candidates are derived from (``seed``, epoch, step); see :mod:`bayescl_lab._randomness`.

    Args:
        encoder: Encoder of users and items.
        loss: Loss of :mod:`bayescl.losses` or :mod:`bayescl_lab.ranking.losses` with
            ``normalize=True``. Checkpoints include its state. It needs ``gather=True`` if several
            processes share batches.
        candidates: Number of candidates per batch; see :func:`.sampled_loss`.
        learning_rate: Initial learning rate of Adam. It decreases to 0 by a cosine schedule.
        weight_decay: Weight decay of Adam, applied to all embeddings at every step.
        total_steps: Number of steps of the whole run, for the cosine schedule.
        propagate: Argument of :meth:`.Encoder.scorer`. Training does not depend on it.
        item_norm_exponent: Argument of :meth:`.Encoder.scorer`. Training does not depend on it.
        seed: Seed of the run.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        *,
        encoder: Encoder,
        loss: ContrastiveLoss,
        candidates: int,
        learning_rate: float,
        total_steps: int,
        weight_decay: float = 0.0,
        propagate: int = 0,
        item_norm_exponent: float = 0.0,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder, self.loss = encoder, loss
        self.candidates = checked("candidates", candidates, Count)
        self.learning_rate = checked("learning_rate", learning_rate, Positive)
        self.weight_decay, self.total_steps = weight_decay, total_steps
        self.propagate, self.item_norm_exponent = propagate, item_norm_exponent
        self.seed = seed

    def training_step(self, batch: UserBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Compute the loss of one batch of users."""
        return self.step_loss(batch, self.current_epoch, batch_idx)

    def step_loss(self, batch: UserBatch, epoch: int, step: int) -> Float[Tensor, ""]:
        """Compute the loss of one batch with the candidates of a step."""
        seed = derived_seed(self.seed, Purpose.CANDIDATES, epoch, step)
        return sampled_loss(self.loss, self.encoder, batch, count=self.candidates, seed=seed)

    def scorer(self) -> EmbeddingScorer:
        """Return a scorer of the current embeddings for a full ranking."""
        return self.encoder.scorer(
            propagate=self.propagate, item_norm_exponent=self.item_norm_exponent
        )

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return Adam with a cosine schedule."""
        optimizer = torch.optim.Adam(
            self.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        schedule = CosineAnnealingLR(optimizer, self.total_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

"""A recommender as a Lightning module, built from an encoder, a loss and a candidate source."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

from bayescl.axes import Float, Tensor
from bayescl.checks import check_positive
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.batches import UserBatch, UserBatches
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.scorers import EmbeddingScorer


class RankingModule(pl.LightningModule):
    """Train an encoder so that users score their items above the candidates.

    Candidates are derived from (``seed``, epoch, step); see :mod:`bayescl_lab._randomness`.

    Args:
        encoder: embeddings of users and items.
        loss: any loss of :mod:`bayescl.losses` or, with drawn candidates,
            :mod:`bayescl_lab.ranking.losses`. Its state is in every checkpoint. Needs
            ``gather=True`` if several processes share batches.
        candidates: draws the candidates and calls the loss.
        learning_rate: initial learning rate of Adam.
        weight_decay: weight decay of Adam, of all embeddings at every step.
        total_steps: steps of the whole run, over which the learning rate follows half a cosine down
            to 0.
        propagate: layers of :func:`~bayescl_lab.ranking.propagation.propagated` in ranking.
        item_norm_exponent: exponent of the item norm in ranking; see
            :class:`~bayescl_lab.ranking.scorers.EmbeddingScorer`. Training depends on neither.
        seed: the seed of the run.

    Raises:
        ValueError: if an argument is out of range, or the loss scales embeddings to length 1
            while the encoder scores by inner products, or the other way around.
    """

    def __init__(
        self,
        *,
        encoder: Encoder,
        loss: torch.nn.Module,
        candidates: DrawnCandidates,
        learning_rate: float,
        total_steps: int,
        weight_decay: float = 0.0,
        propagate: int = 0,
        item_norm_exponent: float = 0.0,
        seed: int,
    ) -> None:
        super().__init__()
        cosine = encoder.score == "cosine"
        if (normalize := getattr(loss, "normalize", cosine)) != cosine:
            raise ValueError(
                f"the loss must score like the encoder, by {encoder.score}: "
                f"got normalize={normalize}"
            )
        self.encoder, self.loss, self.candidates = encoder, loss, candidates
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.weight_decay, self.total_steps = weight_decay, total_steps
        self.propagate, self.item_norm_exponent = propagate, item_norm_exponent
        self.seed = seed

    def training_step(self, batch: UserBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The loss of one batch of users."""
        loss = self.step_loss(batch, self.current_epoch, batch_idx)
        # The mean over processes is the mean over all pairs.
        pairs = len(batch.items)
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=pairs, sync_dist=True)
        return loss

    def step_loss(self, batch: UserBatch, epoch: int, step: int) -> Float[Tensor, ""]:
        """The loss of one batch, with the candidates of a step."""
        seed = derived_seed(self.seed, Purpose.CANDIDATES, epoch, step)
        loss: Tensor = self.candidates(self.loss, self.encoder, batch, seed=seed)
        return loss

    def train_epoch(self, batches: UserBatches, epoch: int, made: Any) -> None:
        """Train one epoch without a trainer, with the optimizer and the schedule just made."""
        optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
        batches.set_epoch(epoch)
        for step, batch in enumerate(batches):
            optimizer.zero_grad()
            self.step_loss(batch, epoch, step).backward()
            optimizer.step()
            schedule.step()

    def scorer(self) -> EmbeddingScorer:
        """A scorer with the current embeddings, for a full ranking."""
        return self.encoder.scorer(
            propagate=self.propagate, item_norm_exponent=self.item_norm_exponent
        )

    def configure_optimizers(self) -> Any:
        """Adam, with a learning rate that follows half a cosine down to 0."""
        optimizer = torch.optim.Adam(
            self.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        schedule = CosineAnnealingLR(optimizer, self.total_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

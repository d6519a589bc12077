"""Losses for pytorch-metric-learning, with its miners, distances, reducers and wrappers.

Tested with pytorch-metric-learning 2.9.
"""

from __future__ import annotations

from typing import Any

import torch

from bayescl._axes import Float, Int, Tensor
from bayescl.integrations._extras import loss_named, missing

try:
    from pytorch_metric_learning import losses as theirs
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses.generic_pair_loss import GenericPairLoss
except ImportError as error:
    raise missing("pytorch-metric-learning", "pytorch-metric-learning", error) from error

__all__ = [
    "BayesianNTXentLoss",
    "CrossBatchMemory",
    "DebiasedNTXentLoss",
    "HardNTXentLoss",
    "NTXentLoss",
    "SelfSupervisedLoss",
]

_OF_THEIR_BASE = frozenset(
    {"distance", "reducer", "embedding_regularizer", "embedding_reg_weight", "collect_stats"}
)


class NTXentLoss(GenericPairLoss):  # type: ignore[misc]
    """InfoNCE on the pairs that labels or a miner name.

    Every positive pair is contrasted with all negative pairs of its anchor, as in the library's
    own ``NTXentLoss``. Distances that are not inverted (a small one means alike) count negatively.

    Args:
        temperature: softmax scale, positive, or a :class:`~bayescl.losses.LearnableTemperature`.
        **options: ``distance`` (default: cosine similarity), ``reducer``,
            ``embedding_regularizer``, ``embedding_reg_weight`` and ``collect_stats`` as in all
            losses of the library, and what the loss takes besides, such as ``alpha`` and
            ``tau_plus`` for :class:`BayesianNTXentLoss`.

    Raises:
        ValueError: if an argument leaves its range.

    Example:
        >>> loss = NTXentLoss(temperature=0.5)
        >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
        tensor(1.0986)
    """

    loss_name = "InfoNCELoss"

    def __init__(self, temperature: Any = 0.07, **options: Any) -> None:
        base = {name: options.pop(name) for name in _OF_THEIR_BASE & options.keys()}
        super().__init__(mat_based_loss=False, **base)
        self.loss = loss_named(self.loss_name)(
            temperature=temperature, reduction="none", normalize=False, **options
        )
        self.add_to_recordable_attributes(list_of_names=["temperature"], is_stat=False)

    @property
    def temperature(self) -> float:
        """The softmax scale as a number."""
        return float(torch.as_tensor(self._scale()).detach())

    def get_default_distance(self) -> Any:
        """Return the distance where none is given."""
        return CosineSimilarity()

    def _scale(self) -> float | Tensor:
        learnable = self.loss.learnable_temperature
        scale: float | Tensor = self.loss.temperature if learnable is None else learnable()
        return scale

    def _compute_loss(
        self,
        pos_pairs: Float[Tensor, " positives"],
        neg_pairs: Float[Tensor, " negatives"],
        indices_tuple: tuple[Int[Tensor, " pairs"], ...],
    ) -> Any:
        """Return the loss of every positive pair, for the reducer."""
        a1, p, a2, _ = indices_tuple
        if len(a1) == 0 or len(a2) == 0:
            return self.zero_losses()
        sign = 1 if self.distance.is_inverted else -1
        scale = self._scale() * sign
        # One row per anchor with its negatives, as many as the miner left it.
        rows = int(torch.maximum(a1.max(), a2.max())) + 1
        counts = torch.bincount(a2, minlength=rows)
        columns = torch.arange(int(counts.max()), device=counts.device)
        places = columns < counts[:, None]
        unlabeled = neg_pairs.new_zeros(places.shape)
        unlabeled[places] = (neg_pairs / scale)[a2.argsort(stable=True)]
        whole = len(a2) == places.numel()
        losses = self.loss.from_logits(
            pos_pairs / scale, unlabeled[a1], valid=None if whole else places[a1]
        )
        return {"loss": {"losses": losses, "indices": (a1, p), "reduction_type": "pos_pair"}}


class DebiasedNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.DebiasedContrastiveLoss`.

    Its floor presumes cosines; for another distance pass ``minimum_similarity``.
    """

    loss_name = "DebiasedContrastiveLoss"


class HardNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.HardContrastiveLoss`.

    Its floor presumes cosines; for another distance pass ``minimum_similarity``.
    """

    loss_name = "HardContrastiveLoss"


class BayesianNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.BayesianContrastiveLoss`."""

    loss_name = "BayesianContrastiveLoss"


_NAMES = ("BayesianNTXentLoss", "DebiasedNTXentLoss", "HardNTXentLoss", "NTXentLoss")


class SelfSupervisedLoss(theirs.SelfSupervisedLoss):  # type: ignore[misc]
    """The library's wrapper for two views, which refuses by name losses that it does not know."""

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of losses that may be wrapped: theirs and those of this file."""
        return [*theirs.SelfSupervisedLoss.supported_losses(), *_NAMES]


class CrossBatchMemory(theirs.CrossBatchMemory):  # type: ignore[misc]
    """The library's memory, which refuses by name losses that it does not know."""

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of losses that may be wrapped: theirs and those of this file."""
        return [*theirs.CrossBatchMemory.supported_losses(), *_NAMES]

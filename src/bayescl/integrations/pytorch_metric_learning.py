"""A loss for pytorch-metric-learning, with its miners, distances, reducers and wrappers.

Tested with pytorch-metric-learning 2.9.
"""

from __future__ import annotations

from typing import Any

import torch

from bayescl._checks import missing
from bayescl._types import Float, Int, Tensor
from bayescl.integrations._losses import new_loss
from bayescl.losses import ContrastiveLoss, InfoNCELoss

try:
    from pytorch_metric_learning import losses as theirs
    from pytorch_metric_learning.distances import CosineSimilarity, DotProductSimilarity
    from pytorch_metric_learning.losses.generic_pair_loss import GenericPairLoss
    from pytorch_metric_learning.reducers import MeanReducer
    from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_pairs
except ImportError as error:
    raise missing("pytorch-metric-learning", "pytorch-metric-learning", error) from error

_REGULARIZING = {"embedding_regularizer", "embedding_reg_weight"}
_OF_THEIR_BASE = {"distance", "reducer", "collect_stats"} | _REGULARIZING


class NTXentLoss(GenericPairLoss):  # type: ignore[misc]
    """Loss of this package on the pairs given by labels or by a miner.

    Every positive pair is contrasted with all negative pairs of its anchor, as in the library's
    own ``NTXentLoss``. Distances that are small for similar items are negated. The debiased and the
    hard loss assume cosines; pass ``minimum_similarity`` for another distance.

    Args:
        temperature: Temperature of the softmax, positive, or a
            :class:`~bayescl.losses.LearnableTemperature`. Default: 0.07.
        loss: Class of :mod:`bayescl.losses`. Default: InfoNCE, which is the library's own loss.
        **options: ``distance`` (default: cosine similarity), ``reducer``,
            ``embedding_regularizer``, ``embedding_reg_weight`` and ``collect_stats`` as in all
            losses of the library, and further arguments of the loss, such as ``alpha``.

    Raises:
        ValueError: if an argument is out of range.
        TypeError: if ``loss`` is not a class of a loss.

    Example:
        >>> loss = NTXentLoss(temperature=0.5)
        >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
        tensor(1.0986)
    """

    def __init__(
        self,
        temperature: Any = 0.07,
        *,
        loss: type[ContrastiveLoss] = InfoNCELoss,
        **options: Any,
    ) -> None:
        base = {name: options.pop(name) for name in _OF_THEIR_BASE & options.keys()}
        super().__init__(mat_based_loss=False, **base)
        self.loss = new_loss(
            loss, temperature=temperature, reduction="none", normalize=False, **options
        )
        self.metadata: dict[str, Any] = {}  # metadata of two views, set by the wrapper
        self.add_to_recordable_attributes(list_of_names=["temperature"], is_stat=False)

    @property
    def temperature(self) -> float:
        """Current temperature."""
        return float(torch.as_tensor(self.loss.current_temperature()).detach())

    def get_default_distance(self) -> Any:
        """Return the default distance."""
        return CosineSimilarity()

    @property
    def on_inner_products(self) -> bool:
        """Whether the distance can be computed without a matrix of all pairs."""
        distance = self.distance
        known = type(distance) in (CosineSimilarity, DotProductSimilarity)
        return known and (distance.power, distance.p, distance.collect_stats) == (1, 2, False)

    @property
    def _is_mean(self) -> bool:
        """Whether the reducer computes the mean."""
        return type(self.reducer) is MeanReducer and not self.reducer.collect_stats

    def _ours(self, *, mean: bool) -> Any:
        """Return the loss of this package with the distance's normalization."""
        self.loss.normalize = self.distance.normalize_embeddings
        self.loss.reduction = "mean" if mean else "none"
        return self.loss

    def compute_loss(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Tensor | None,
        indices_tuple: tuple[Int[Tensor, " pairs"], ...] | None,
        ref_emb: Float[Tensor, "columns dim"],
        ref_labels: Tensor | None,
    ) -> Any:
        """Compute the losses of positive pairs for the reducer, or directly their mean."""
        if not self.on_inner_products or (labels is None and indices_tuple is None):
            return super().compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        ours = self._ours(mean=self._is_mean)
        alone = indices_tuple is None and ref_labels is labels and ref_emb is embeddings
        views = _two_views(labels) if alone else None
        if views is not None:
            losses = ours(*(embeddings[rows] for rows in views), **self.metadata)
            rows = torch.cat(views)
            return self._for_reducer(losses, rows, rows.roll(len(rows) // 2))
        anchors, positives, *other = convert_to_pairs(indices_tuple, labels, ref_labels)
        negative = torch.zeros(
            len(embeddings), len(ref_emb), dtype=torch.bool, device=ref_emb.device
        )
        negative[tuple(other)] = True
        if int(negative.sum()) < len(other[0]):  # a miner returned a pair twice
            return super().compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if not bool(negative.any(1)[anchors].any()):
            return self.zero_losses()
        given: Any = {"anchor_of": anchors, "valid": negative}
        losses = ours.sampled(embeddings, ref_emb[positives], ref_emb, **given)
        return self._for_reducer(losses, anchors, positives)

    def _for_reducer(self, losses: Tensor, anchors: Tensor, positives: Tensor) -> Any:
        """Return the input of the library's reducers: losses of positive pairs, or their mean."""
        if self._is_mean:
            return {"loss": {**self.zero_loss(), "losses": losses}}
        pairs = (anchors, positives)
        return {"loss": {"losses": losses, "indices": pairs, "reduction_type": "pos_pair"}}

    def _compute_loss(
        self,
        pos_pairs: Float[Tensor, " positives"],
        neg_pairs: Float[Tensor, " negatives"],
        indices_tuple: tuple[Int[Tensor, " pairs"], ...],
    ) -> Any:
        """Compute the loss of every positive pair from the distances of pairs."""
        a1, p, a2, _ = indices_tuple
        if not bool(torch.isin(a1, a2).any()):
            return self.zero_losses()
        sign = 1 if self.distance.is_inverted else -1
        scale = self.loss.current_temperature() * sign
        # One row per anchor with its negatives. The miner may leave different numbers.
        rows = int(torch.maximum(a1.max(), a2.max())) + 1
        counts = torch.bincount(a2, minlength=rows)
        columns = torch.arange(int(counts.max()), device=counts.device)
        places = columns < counts[:, None]
        unlabeled = neg_pairs.new_zeros(places.shape)
        unlabeled[places] = (neg_pairs / scale)[a2.argsort(stable=True)]
        whole = len(a2) == places.numel()
        losses = self._ours(mean=False).from_logits(
            pos_pairs / scale, unlabeled[a1], valid=None if whole else places[a1]
        )
        return {"loss": {"losses": losses, "indices": (a1, p), "reduction_type": "pos_pair"}}


def _two_views(labels: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Return the indices of the first and second row of each label, if each label has two."""
    if labels is None or labels.ndim != 1 or len(labels) < 4 or len(labels) % 2:
        return None
    ordered, order = labels.sort(stable=True)
    first, second = ordered[::2], ordered[1::2]
    twice = torch.equal(first, second) and bool((first[1:] != first[:-1]).all())
    return (order[::2], order[1::2]) if twice else None


class SelfSupervisedLoss(theirs.SelfSupervisedLoss):  # type: ignore[misc]
    """The library's wrapper for two views, with a teacher and metadata of the items.

    Args:
        loss: :class:`NTXentLoss`, or any loss that the library's wrapper accepts.
        symmetric: Whether rows of both views are anchors. Otherwise only rows of the first view
            are. Default: True.

    Example:
        >>> loss_func = SelfSupervisedLoss(NTXentLoss(temperature=0.5))
        >>> loss_func(torch.eye(3), torch.eye(3))
        tensor(0.4327)
        >>> loss_func(torch.eye(3), torch.eye(3), teacher=torch.eye(3))  # shares half
        tensor(1.4327)
    """

    def forward(
        self,
        embeddings: Float[Tensor, "batch dim"],
        ref_emb: Float[Tensor, "batch dim"],
        **metadata: Any,
    ) -> Float[Tensor, ""]:
        """Compute the loss of two views of the same items, in the same order.

        Args:
            embeddings: Embeddings of the first views.
            ref_emb: Embeddings of the second views.
            **metadata: ``teacher``, ``groups``, ``domains``, ``labels`` and other arguments of
                :meth:`~bayescl.losses.ContrastiveLoss.forward`. Needs ``symmetric=True`` and a loss
                of this package with the default distance.

        Raises:
            ValueError: if metadata is given for a loss that cannot use it.
        """
        ours = isinstance(self.loss, NTXentLoss) and self.loss.on_inner_products
        if metadata and not (ours and self.symmetric):
            raise ValueError(
                f"to pass {', '.join(metadata)}, use symmetric=True and an NTXentLoss of "
                "bayescl with the default distance"
            )
        if ours:
            self.loss.metadata = metadata
        try:
            value: Tensor = super().forward(embeddings, ref_emb)
        finally:
            if ours:
                self.loss.metadata = {}
        return value

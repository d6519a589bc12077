"""Losses for pytorch-metric-learning, with its miners, distances, reducers and wrappers.

Tested with pytorch-metric-learning 2.9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import missing
from bayescl.losses import (
    BayesianContrastiveLoss,
    DebiasedContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    LatentClassContrastiveLoss,
)

try:
    from pytorch_metric_learning import losses as theirs
    from pytorch_metric_learning.distances import CosineSimilarity, DotProductSimilarity
    from pytorch_metric_learning.losses.generic_pair_loss import GenericPairLoss
    from pytorch_metric_learning.reducers import MeanReducer
except ImportError as error:
    raise missing("pytorch-metric-learning", "pytorch-metric-learning", error) from error

_LOSSES = [
    "BayesianNTXentLoss",
    "DebiasedNTXentLoss",
    "HardNTXentLoss",
    "LatentClassNTXentLoss",
    "NTXentLoss",
]
__all__ = [*_LOSSES, "CrossBatchMemory", "SelfSupervisedLoss"]

_OF_THEIR_BASE = frozenset(
    {"distance", "reducer", "embedding_regularizer", "embedding_reg_weight", "collect_stats"}
)


class NTXentLoss(GenericPairLoss):  # type: ignore[misc]
    """InfoNCE on the pairs that labels or a miner name.

    Every positive pair is contrasted with all negative pairs of its anchor, as in the library's
    own ``NTXentLoss``. Distances that are small for similar items are negated.

    Args:
        temperature: softmax scale, positive, or a :class:`~bayescl.losses.LearnableTemperature`.
        **options: ``distance`` (default: cosine similarity), ``reducer``,
            ``embedding_regularizer``, ``embedding_reg_weight`` and ``collect_stats`` as in all
            losses of the library, and further arguments of the loss, such as ``alpha`` and
            ``tau_plus`` for :class:`BayesianNTXentLoss`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = NTXentLoss(temperature=0.5)
        >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
        tensor(1.0986)
    """

    loss_class: type[Any] = InfoNCELoss

    def __init__(self, temperature: Any = 0.07, **options: Any) -> None:
        base = {name: options.pop(name) for name in _OF_THEIR_BASE & options.keys()}
        super().__init__(mat_based_loss=False, **base)
        self.loss = self.loss_class(
            temperature=temperature, reduction="none", normalize=False, **options
        )
        self.add_to_recordable_attributes(list_of_names=["temperature"], is_stat=False)

    @property
    def temperature(self) -> float:
        """The softmax scale as a number."""
        return float(torch.as_tensor(self.loss.current_temperature()).detach())

    def get_default_distance(self) -> Any:
        """Return the default distance."""
        return CosineSimilarity()

    @property
    def _on_inner_products(self) -> bool:
        """Whether our losses can compute the distance without a matrix of all pairs."""
        distance = self.distance
        known = type(distance) in (CosineSimilarity, DotProductSimilarity)
        return known and (distance.power, distance.p, distance.collect_stats) == (1, 2, False)

    @property
    def _is_mean(self) -> bool:
        """Whether the reducer only takes the mean, and no regularizer adds to it."""
        return type(self.reducer) is MeanReducer and not self.reducer.collect_stats

    def _ours(self, *, mean: bool) -> Any:
        """Our loss, to be called with embeddings."""
        self.loss.normalize = self.distance.normalize_embeddings
        self.loss.reduction = "mean" if mean else "none"
        return self.loss

    def of_two_views(self) -> Any:
        """Return our loss if it alone is the value of two views, else None."""
        return self._ours(mean=True) if self._on_inner_products and self._is_mean else None

    def compute_loss(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Tensor | None,
        indices_tuple: tuple[Int[Tensor, " pairs"], ...] | None,
        ref_emb: Float[Tensor, "columns dim"],
        ref_labels: Tensor | None,
    ) -> Any:
        """Return the loss of every positive pair for the reducer, or its mean if that suffices."""
        call = (embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if not self._on_inner_products or (labels is None and indices_tuple is None):
            return super().compute_loss(*call)
        ours = self._ours(mean=self._is_mean)
        alone = indices_tuple is None and ref_labels is labels and ref_emb is embeddings
        views = _two_views(labels) if alone else None
        if views is not None:
            first, second = views
            losses = ours(embeddings[first], embeddings[second])
            rows = torch.arange(len(embeddings), device=embeddings.device)
            there = torch.cat([rows[first], rows[second]])
            return self._for_reducer(losses, there, there.roll(len(rows) // 2))
        both = (labels, ref_labels)
        known = self.loss.uses_labels and all(
            numbers is not None and not numbers.is_floating_point() for numbers in both
        )
        if known and indices_tuple is not None:
            indices_tuple = _without_unknown(indices_tuple, *both)
            call = (embeddings, labels, indices_tuple, ref_emb, ref_labels)
        pairs = _named_pairs(*call, known=known)
        if pairs is None:
            return super().compute_loss(*call)
        if not bool(pairs.negative.any(1)[pairs.anchors].any()):
            return self.zero_losses()
        losses = ours.sampled(
            embeddings[pairs.anchors], ref_emb[pairs.positives], ref_emb, **pairs.options
        )
        return self._for_reducer(losses, pairs.anchors, pairs.positives)

    def _for_reducer(self, losses: Tensor, anchors: Tensor, positives: Tensor) -> Any:
        """The input of the library's reducers: losses of positive pairs, or their mean."""
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
        """Return the loss of every positive pair, from the distances of pairs."""
        a1, p, a2, _ = indices_tuple
        if not bool(torch.isin(a1, a2).any()):
            return self.zero_losses()
        sign = 1 if self.distance.is_inverted else -1
        scale = self.loss.current_temperature() * sign
        # One row per anchor with its negatives, as many as the miner left it.
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


class DebiasedNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.DebiasedContrastiveLoss`.

    Its floor assumes cosines; for another distance pass ``minimum_similarity``.
    """

    loss_class = DebiasedContrastiveLoss


class HardNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.HardContrastiveLoss`.

    Its floor assumes cosines; for another distance pass ``minimum_similarity``.
    """

    loss_class = HardContrastiveLoss


class BayesianNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.BayesianContrastiveLoss`."""

    loss_class = BayesianContrastiveLoss


class LatentClassNTXentLoss(NTXentLoss):
    """:class:`NTXentLoss` with :class:`~bayescl.losses.LatentClassContrastiveLoss`.

    Classes are found in embeddings, so the distance must be a cosine or an inner product. If a
    miner names a pair twice, that step is InfoNCE.

    Integer labels are the labels of some rows: a row of -1 is a candidate of unknown class, and
    nobody's positive. Labels that number items, as in ``SelfSupervisedLoss``, are not classes: each
    stands on two rows of the batch, or on one row and one reference. For two views of items of
    which some are labelled, call :class:`SelfSupervisedLoss` with ``labels=``.

    Retrieval of the exact pair is kept by ``aim="pairs"``, the default for labels and miners, and
    lost by ``aim="classes"``.
    """

    loss_class = LatentClassContrastiveLoss

    def __init__(self, temperature: Any = 0.07, **options: Any) -> None:
        super().__init__(temperature, **options)
        if not self._on_inner_products:
            raise ValueError(
                "distance must be CosineSimilarity() or DotProductSimilarity(), without power and "
                f"statistics, for latent classes, got {self.distance}"
            )


class _Pairs(NamedTuple):
    """The positive pairs of a batch, and the rows that each anchor is contrasted with."""

    anchors: Int[Tensor, " pairs"]
    positives: Int[Tensor, " pairs"]
    negative: Bool[Tensor, "rows columns"]
    options: dict[str, Tensor]
    """Arguments of the loss: what ``negative`` says of the anchors of pairs, and classes."""


def _two_views(labels: Tensor | None) -> tuple[Any, Any] | None:
    """Places of the first and the second row of each label, if each label has two."""
    if labels is None or labels.ndim != 1 or len(labels) < 4 or len(labels) % 2:
        return None
    half = len(labels) // 2
    first, second = slice(0, half), slice(half, None)
    if torch.equal(labels[first], labels[second]):  # as SelfSupervisedLoss lays them out
        return (first, second) if len(labels[first].unique()) == half else None
    ordered, order = labels.sort()
    pairs = ordered.view(half, 2)
    if bool((pairs[:, 0] == pairs[:, 1]).all() & (pairs[1:, 0] != pairs[:-1, 0]).all()):
        return order[::2], order[1::2]
    return None


def _named_pairs(
    embeddings: Tensor,
    labels: Any,
    indices_tuple: tuple[Tensor, ...] | None,
    ref_emb: Tensor,
    ref_labels: Any,
    *,
    known: bool,
) -> _Pairs | None:
    """The pairs that labels or a miner name; None if a miner names a pair twice.

    With labels that are ``known`` to be classes, one of -1 says nothing.
    """
    numbers, columns, alone = labels, ref_labels, ref_labels is labels
    if indices_tuple is None:
        if known:
            # Each label on one row of either side numbers an item: an anchor and its other view.
            most = max(int(side.unique(return_counts=True)[1].max()) for side in (labels, columns))
            known = alone or most > 1
            both = torch.cat([labels, columns])
            apart = -1 - torch.arange(len(both), device=both.device)  # an own class if unknown
            both = torch.where(both < 0, apart, both.long())
            numbers = both[: len(labels)]
            columns = numbers if alone else both[len(labels) :]
        same = numbers[:, None] == columns
        negative = ~same
        if alone:
            same.fill_diagonal_(False)
        anchors, positives = torch.where(same)
    else:
        anchors, positives, *others, negatives = indices_tuple
        (rows,) = others or (anchors,)
        negative = embeddings.new_zeros(len(embeddings), len(ref_emb), dtype=torch.bool)
        negative[rows, negatives] = True
        if int(negative.sum()) < len(negatives):
            return None
    if indices_tuple is None and not labels.is_floating_point():
        options = {"groups": numbers[anchors], "candidate_groups": columns}
    else:
        options = {"valid": negative[anchors]}
    if known:
        options |= {"labels": labels[anchors], "candidate_labels": ref_labels}
    return _Pairs(anchors, positives, negative, options)


def _without_unknown(indices_tuple: tuple[Tensor, ...], labels: Any, ref_labels: Any) -> Any:
    """What a miner found, without pairs or triplets that are positive because both are -1."""
    anchors, positives, *others = indices_tuple
    kept = (labels[anchors] >= 0) | (ref_labels[positives] >= 0)
    if len(others) == 1:  # triplets: the negative goes with them
        others = [others[0][kept]]
    return (anchors[kept], positives[kept], *others)


class SelfSupervisedLoss(theirs.SelfSupervisedLoss):  # type: ignore[misc]
    """The library's wrapper for two views, extended to the losses of this module.

    Args:
        loss: a loss of this module, or one that the library's own wrapper accepts.
        symmetric: whether rows of both views are anchors, rather than only those of the first.

    Example:
        >>> loss_func = SelfSupervisedLoss(NTXentLoss(temperature=0.5))
        >>> loss_func(torch.eye(3), torch.eye(3))
        tensor(0.4327)
    """

    def forward(
        self,
        embeddings: Float[Tensor, "batch dim"],
        ref_emb: Float[Tensor, "batch dim"],
        *,
        labels: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """Compute the loss of two views of the same items, in the same order.

        Args:
            embeddings: of the first views.
            ref_emb: of the second views.
            labels: class of each item, -1 where it is not known; only for a symmetric
                :class:`LatentClassNTXentLoss`, which retrieves exact pairs worse with
                ``aim="classes"``.

        Raises:
            ValueError: if labels are given to a loss that cannot use some.
        """
        ours = self.symmetric and isinstance(self.loss, NTXentLoss) and len(embeddings) > 1
        direct = self.loss.of_two_views() if ours else None
        if direct is not None:
            value: Tensor = direct(embeddings, ref_emb, labels=labels)
        elif labels is None or (self.symmetric and len(embeddings) == 1):
            value = super().forward(embeddings, ref_emb)
        else:
            raise ValueError(
                "labels need symmetric=True and a LatentClassNTXentLoss of bayescl with the "
                "default distance and reducer"
            )
        return value

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of losses that may be wrapped: the library's and ours."""
        return [*theirs.SelfSupervisedLoss.supported_losses(), *_LOSSES]


class CrossBatchMemory(theirs.CrossBatchMemory):  # type: ignore[misc]
    """The library's memory, extended to the losses of this module."""

    @staticmethod
    def supported_losses() -> list[str]:
        """Return the names of losses that may be wrapped: the library's and ours."""
        return [*theirs.CrossBatchMemory.supported_losses(), *_LOSSES]

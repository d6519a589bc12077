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
        """Whether the reducer only takes the mean."""
        return type(self.reducer) is MeanReducer and not self.reducer.collect_stats

    def _ours(self, *, mean: bool) -> Any:
        """Our loss, to be called with embeddings."""
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
        """Return the loss of every positive pair for the reducer, or its mean if that suffices."""
        call = (embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if not self._on_inner_products or (labels is None and indices_tuple is None):
            return super().compute_loss(*call)
        alone = indices_tuple is None and ref_labels is labels and ref_emb is embeddings
        views = _two_views(labels) if alone else None
        if views is not None:
            first, second = views
            losses = self._ours(mean=self._is_mean)(embeddings[first], embeddings[second])
            rows = torch.arange(len(embeddings), device=embeddings.device)
            there = torch.cat([rows[first], rows[second]])
            return self._for_reducer(losses, (there, there.roll(len(rows) // 2)))
        known = None
        if self.loss.uses_labels:
            known = _classes(labels, ref_labels)
        if known is not None and indices_tuple is not None:
            indices_tuple = _without_unknown(indices_tuple, *known)
            call = (embeddings, labels, indices_tuple, ref_emb, ref_labels)
        pairs = _named_pairs(*call, known)
        if pairs is None:
            return super().compute_loss(*call)
        if pairs.are_none:
            return self.zero_losses()
        losses = self._ours(mean=self._is_mean).sampled(
            embeddings[pairs.anchors], ref_emb[pairs.positives], ref_emb, **pairs.counted()
        )
        return self._for_reducer(losses, (pairs.anchors, pairs.positives))

    def _for_reducer(self, losses: Tensor, indices: tuple[Tensor, Tensor]) -> Any:
        """The input of the library's reducers: losses of positive pairs, or their mean."""
        if self._is_mean:
            return {"loss": {**self.zero_loss(), "losses": losses}}
        return {"loss": {"losses": losses, "indices": indices, "reduction_type": "pos_pair"}}

    def of_two_views(
        self,
        view_1: Float[Tensor, "batch dim"],
        view_2: Float[Tensor, "batch dim"],
        labels: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean loss of two views in which every row is its own item."""
        if len(view_1) > 1 and self._on_inner_products and self._is_mean:
            value: Tensor = self._ours(mean=True)(view_1, view_2, labels=labels)
            return value
        if labels is not None and len(view_1) > 1:
            raise ValueError("labels need the default distance and reducer of the loss")
        items = torch.arange(len(view_1), device=view_1.device).repeat(2)
        return self(torch.cat([view_1, view_2]), items)  # type: ignore[no-any-return]

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
    groups: tuple[Int[Tensor, " rows"], Int[Tensor, " columns"]] | None
    """Labels equivalent to ``negative``."""
    labels: tuple[Int[Tensor, " rows"], Int[Tensor, " columns"]] | None
    """Classes of some rows, for a loss that can use them."""

    @property
    def are_none(self) -> bool:
        """Whether no positive pair has a row to be contrasted with."""
        return not bool(self.negative.any(1)[self.anchors].any())

    def counted(self) -> dict[str, Tensor]:
        """What the loss must know of the pairs."""
        known = {}
        if self.labels is not None:
            labels, columns = self.labels
            known = {"labels": labels[self.anchors], "candidate_labels": columns}
        if self.groups is None:
            return {"valid": self.negative[self.anchors], **known}
        groups, columns = self.groups
        return {"groups": groups[self.anchors], "candidate_groups": columns, **known}


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
    labels: Tensor | None,
    indices_tuple: tuple[Tensor, ...] | None,
    ref_emb: Tensor,
    ref_labels: Tensor | None,
    known: tuple[Tensor, Tensor] | None = None,
) -> _Pairs | None:
    """The pairs that labels or a miner name; None if a miner names a pair twice.

    With labels that are ``known`` to be classes, one of -1 says nothing.
    """
    if indices_tuple is None:
        assert labels is not None
        assert ref_labels is not None
        alone = ref_labels is labels
        if known is not None:
            if not alone and max(map(_most_frequent, (labels, ref_labels))) < 2:
                known = None  # labels number items: an anchor and its other view
            labels, columns = _each_unknown_apart(labels, ref_labels)
            ref_labels = labels if alone else columns
        same = labels[:, None] == ref_labels
        negative = ~same
        if alone:
            same.fill_diagonal_(False)
        groups = None if labels.is_floating_point() else (labels, ref_labels)
        anchors, positives = torch.where(same)
        return _Pairs(anchors, positives, negative, groups, known)
    anchors, positives, *others, negatives = indices_tuple
    (rows,) = others or (anchors,)
    negative = torch.zeros(
        len(embeddings), len(ref_emb), dtype=torch.bool, device=embeddings.device
    )
    negative[rows, negatives] = True
    once = int(negative.sum()) == len(negatives)
    return _Pairs(anchors, positives, negative, None, known) if once else None


def _classes(labels: Tensor | None, ref_labels: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """The labels of both sides if they can be classes."""
    if labels is None or ref_labels is None:
        return None
    if labels.is_floating_point() or ref_labels.is_floating_point():
        return None
    return labels, ref_labels


def _most_frequent(labels: Tensor) -> int:
    """Number of rows of the most frequent label."""
    return int(labels.unique(return_counts=True)[1].max())


def _each_unknown_apart(labels: Tensor, ref_labels: Tensor) -> tuple[Tensor, Tensor]:
    """Labels that are equal where they were equal and known."""
    both = torch.cat([labels, ref_labels])
    numbers = torch.arange(len(both), device=both.device)
    apart = torch.where(both < 0, -1 - numbers, both.long())
    first, second = apart.split([len(labels), len(ref_labels)])
    return first, second


def _without_unknown(
    indices_tuple: tuple[Tensor, ...], labels: Tensor, ref_labels: Tensor
) -> tuple[Tensor, ...]:
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
        if self.symmetric and isinstance(self.loss, NTXentLoss):
            return self.loss.of_two_views(embeddings, ref_emb, labels)
        if labels is not None:
            raise ValueError("labels need symmetric=True and a LatentClassNTXentLoss of bayescl")
        value: Tensor = super().forward(embeddings, ref_emb)
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

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

_LOSSES = [f"{name}NTXentLoss" for name in ("", "Bayesian", "Debiased", "Hard", "LatentClass")]
_REGULARIZING = {"embedding_regularizer", "embedding_reg_weight"}
_OF_THEIR_BASE = {"distance", "reducer", "collect_stats"} | _REGULARIZING


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
        if not self._on_inner_products or (labels is None and indices_tuple is None):
            return super().compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        ours = self._ours(mean=self._is_mean)
        alone = indices_tuple is None and ref_labels is labels and ref_emb is embeddings
        views = _two_views(labels) if alone else None
        if views is not None:
            first, second = views
            losses = ours(embeddings[first], embeddings[second])
            rows = torch.arange(len(embeddings), device=embeddings.device)
            there = torch.cat([rows[first], rows[second]])
            return self._for_reducer(losses, there, there.roll(len(rows) // 2))
        both: Any = (labels, ref_labels)
        integers = all(side is not None and not side.is_floating_point() for side in both)
        classes = both if self.loss.uses_labels and integers else None
        pairs: _Pairs | None
        if indices_tuple is None:
            pairs = _pairs_of_labels(labels, ref_labels, classes is not None)
        else:
            if classes is not None:
                indices_tuple = _without_unknown(indices_tuple, *classes)
            pairs = _pairs_of_a_miner(indices_tuple, len(embeddings), len(ref_emb), classes)
        if pairs is None:
            return super().compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        anchors, positives, negative, options = pairs
        if not bool(negative.any(1)[anchors].any()):
            return self.zero_losses()
        losses = ours.sampled(embeddings[anchors], ref_emb[positives], ref_emb, **options)
        return self._for_reducer(losses, anchors, positives)

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
    miner names a pair twice, that step is InfoNCE. Integer labels are classes, unless they number
    items: each stands on two rows of the batch, or on one row and one reference. A row of -1 is a
    candidate of unknown class, and nobody's positive. For two views of items of which some are
    labelled, call :class:`SelfSupervisedLoss` with ``labels=``.
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


def _pairs_of_labels(labels: Any, ref_labels: Any, known: bool) -> _Pairs:
    """The pairs of equal labels; if these are ``known`` classes, one of -1 says nothing."""
    rows, columns, alone = labels, ref_labels, ref_labels is labels
    options = {}
    if known:
        # Each label on one row of either side numbers an item: an anchor and its other view.
        most = max(int(side.unique(return_counts=True)[1].max()) for side in (labels, ref_labels))
        both = torch.cat([labels, ref_labels])
        apart = -1 - torch.arange(len(both), device=both.device)  # an own class if unknown
        both = torch.where(both < 0, apart, both.long())
        rows = both[: len(labels)]
        columns = rows if alone else both[len(labels) :]
    same = rows[:, None] == columns
    negative = ~same
    if alone:
        same.fill_diagonal_(False)
    anchors, positives = torch.where(same)
    if labels.is_floating_point():
        options = {"valid": negative[anchors]}
    else:
        options = {"groups": rows[anchors], "candidate_groups": columns}
    if known and (alone or most > 1):
        options |= {"labels": labels[anchors], "candidate_labels": ref_labels}
    return _Pairs(anchors, positives, negative, options)


def _pairs_of_a_miner(
    indices_tuple: tuple[Tensor, ...],
    rows: int,
    columns: int,
    classes: tuple[Tensor, Tensor] | None,
) -> _Pairs | None:
    """The pairs or triplets that a miner names; None if it names a pair twice."""
    anchors, positives, *others, negatives = indices_tuple
    negative = torch.zeros(rows, columns, dtype=torch.bool, device=anchors.device)
    negative[others[0] if others else anchors, negatives] = True
    if int(negative.sum()) < len(negatives):
        return None
    options = {"valid": negative[anchors]}
    if classes is not None:
        options |= {"labels": classes[0][anchors], "candidate_labels": classes[1]}
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
                :class:`LatentClassNTXentLoss`.

        Raises:
            ValueError: if labels are given to a loss that cannot use some.
        """
        value: Tensor
        ours = self.symmetric and isinstance(self.loss, NTXentLoss) and len(embeddings) > 1
        direct = self.loss.of_two_views() if ours else None
        if direct is not None:
            value = direct(embeddings, ref_emb, labels=labels)
            return value
        if labels is not None and not (self.symmetric and len(embeddings) == 1):
            raise ValueError(
                "labels need symmetric=True and a LatentClassNTXentLoss of bayescl with the "
                "default distance and reducer"
            )
        value = super().forward(embeddings, ref_emb)
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

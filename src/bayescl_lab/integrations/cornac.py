"""A recommender for Cornac's experiments, around this package's encoders and losses.

Tested with Cornac 3.0.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.checks import check_choice, check_count, check_non_negative, check_positive, missing
from bayescl.losses import BayesianContrastiveLoss, ContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.encoders import ENCODERS, build_encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import (
    EmbeddingScorer,
    check_item_norm_exponent,
    check_propagate,
)

try:
    from cornac.exception import ScoreException
    from cornac.models.recommender import MEASURE_DOT, ANNMixin, Recommender
except ImportError as error:
    raise missing("Cornac", "cornac", error) from error

Vectors = NDArray[np.float32]


class ContrastiveRecommender(Recommender, ANNMixin):  # type: ignore[misc]
    """Embeddings of users and items, contrasted with items that a user has not chosen.

    Every rating in the training set is a chosen item, whatever its value. Training depends only on
    ``seed`` and equals that of ``bayescl train ranking`` with the same settings.

    Args:
        name: name in Cornac's tables.
        loss: a loss of this package. Default: the Bayesian loss at a temperature of 0.15, with the
            share of pairs that are interactions as ``tau_plus``.
        encoder: ``"mf"`` for matrix factorisation, or ``"lightgcn"``.
        dim: coordinates of an embedding.
        layers: layers of LightGCN.
        candidates: number of items that each batch draws and its users share; all items if there
            are no more. A user's items in the training set never count.
        epochs, batch_size: passes over the training set, and users per step; see
            :class:`~bayescl_lab.ranking.batches.UserBatches`.
        learning_rate: of Adam, from which it falls to 0 by half a cosine.
        weight_decay: of Adam, an L2 penalty on all embeddings.
        propagate: layers of :func:`~bayescl_lab.ranking.propagation.propagated` when items are
            ranked.
        item_norm_exponent: cosines are multiplied by this power of the item's length when items
            are ranked; see :class:`~bayescl_lab.ranking.scorers.EmbeddingScorer`.
        initial_scale: initial standard deviation of each coordinate.
        device: where to train.
        trainable, verbose: Cornac's; a loaded model is not trained again.
        seed: of weights, order and draws.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from cornac.data import Dataset
        >>> pairs = [(user, (user + step) % 5) for user in range(8) for step in (0, 1)]
        >>> ratings = [(f"user {user}", f"item {item}", 1.0) for user, item in pairs]
        >>> model = ContrastiveRecommender(dim=4, epochs=2, batch_size=8)
        >>> model.fit(Dataset.from_uir(ratings)).score(0).shape
        (5,)

        Among Cornac's own models::

            models = [BPR(k=64), ContrastiveRecommender(dim=64, seed=1)]
            cornac.Experiment(eval_method=split, models=models, metrics=metrics).run()
    """

    def __init__(
        self,
        name: str = "Contrastive",
        loss: ContrastiveLoss | None = None,
        encoder: str = "mf",
        dim: int = 128,
        layers: int = 2,
        candidates: int = 4096,
        epochs: int = 16,
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        propagate: int = 0,
        item_norm_exponent: float = 0.0,
        initial_scale: float = 0.1,
        device: str = "cpu",
        trainable: bool = True,
        verbose: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(name=name, trainable=trainable, verbose=verbose)
        check_choice("encoder", encoder, tuple(ENCODERS))
        self.loss = loss
        self.encoder = encoder
        self.dim = check_count("dim", dim, 1)
        self.layers = check_count("layers", layers, 0)
        self.candidates = check_count("candidates", candidates, 1)
        self.epochs = check_count("epochs", epochs, 1)
        self.batch_size = batch_size
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.weight_decay = check_non_negative("weight_decay", weight_decay)
        self.propagate = check_propagate(propagate, self._score)
        self.item_norm_exponent = check_item_norm_exponent(item_norm_exponent, self._score)
        self.initial_scale = check_positive("initial_scale", initial_scale)
        self.device = device
        self.seed = check_count("seed", seed, 0)
        self.user_vectors: Vectors | None = None
        self.item_vectors: Vectors | None = None

    @property
    def _score(self) -> Literal["cosine", "inner"]:
        return "cosine" if self.loss is None or self.loss.normalize else "inner"

    def fit(self, train_set: Any, val_set: Any = None) -> ContrastiveRecommender:
        """Train on a Cornac data set, whose ratings count as chosen items; no validation set."""
        super().fit(train_set, val_set)
        if not self.trainable:
            return self
        users, items, _ = train_set.uir_tuple
        train = Interactions.from_pairs(
            users, items, user_ids=int(train_set.num_users), item_ids=int(train_set.num_items)
        )
        scorer = self._trained(train)
        self.user_vectors = scorer.users.cpu().numpy()
        self.item_vectors = scorer.items.cpu().numpy()
        return self

    def _trained(self, train: Interactions) -> EmbeddingScorer:
        device = torch.device(self.device)
        # A copy, so that a clone of this model starts as this one did.
        loss = deepcopy(self.loss)
        if loss is None:
            loss = BayesianContrastiveLoss(temperature=0.15, tau_plus=train.density)
        settings = {name: getattr(self, name) for name in ("dim", "layers", "initial_scale")}
        with seeded(derived_seed(self.seed, Purpose.WEIGHTS)):
            encoder = build_encoder(self.encoder, train, settings | {"score": self._score})
        batches = UserBatches(train, self.batch_size, self.seed, device=device)
        module = RankingModule(
            encoder=encoder,
            loss=loss,
            candidates=DrawnCandidates(train.num_items, self.candidates),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            total_steps=self.epochs * len(batches),
            propagate=self.propagate,
            item_norm_exponent=self.item_norm_exponent,
            seed=self.seed,
        ).to(device)
        made = module.configure_optimizers()
        for epoch in range(self.epochs):
            module.train_epoch(batches, epoch, made)
        return module.scorer()

    def score(self, user_idx: int, item_idx: int | None = None) -> Vectors | np.float32:
        """Return a user's score of an item, or of all items of the training set.

        Raises:
            ScoreException: if user or item were not in the training set.
        """
        if self.user_vectors is None or self.item_vectors is None:
            raise ScoreException("call fit before scoring")
        if self.is_unknown_user(user_idx):
            raise ScoreException(f"no score for user {user_idx}, who is not in the training set")
        if item_idx is not None and self.is_unknown_item(item_idx):
            raise ScoreException(f"no score for item {item_idx}, which is not in the training set")
        items = self.item_vectors if item_idx is None else self.item_vectors[item_idx]
        scores: Vectors | np.float32 = items @ self.user_vectors[user_idx]
        return scores

    def get_vector_measure(self) -> str:
        """Return how vectors make a score, for approximate nearest neighbours."""
        measure: str = MEASURE_DOT
        return measure

    def get_user_vectors(self) -> Vectors | None:
        """Return one vector per user."""
        return self.user_vectors

    def get_item_vectors(self) -> Vectors | None:
        """Return one vector per item."""
        return self.item_vectors

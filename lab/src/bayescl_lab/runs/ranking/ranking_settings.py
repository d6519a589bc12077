"""Settings of recommenders, trained or fitted without gradients."""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass
from typing_extensions import Self

from bayescl_lab._fields import Count, CountOr0, NonNegative, Positive, check_choice
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import Popularity, Scorer
from bayescl_lab.runs.folder import Kind
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.settings import StoredSettings, TrainedSettings

Baseline = Literal["popularity", "ease", "ials"]
"""Names of recommenders that are not trained by gradients."""

POPULARITY: Literal["popularity"] = "popularity"
EASE_NAME: Literal["ease"] = "ease"
IALS_NAME: Literal["ials"] = "ials"
BASELINES: tuple[Baseline, ...] = (POPULARITY, EASE_NAME)
"""Names of the baselines beside every result."""


@dataclass(frozen=True)
class RankingOptions(TrainedSettings):
    """Settings of a recommender, except data, encoder and loss; see also :class:`TrainedSettings`.

    Attributes:
        dim: Length of an embedding.
        layers: Number of propagation steps on the graph of users and items (lightgcn).
        propagate: Number of layers in which ranking averages embeddings over neighbors in the
            graph. Training does not depend on it. 1 helps on sparse data.
        item_norm_exponent: Ranking multiplies cosines by the item embedding's length to this
            power. Larger values favor popular items. Training does not depend on it.
        candidates: Number of items drawn per batch and shared by its users, at most all items. A
            user's known items are masked.
        batch_size: Number of users per step, with all their pairs, over all devices. Default: a
            32nd of the users, between 32 and 256.
        lr: Initial learning rate of Adam. It decreases to 0 by a cosine schedule.
        weight_decay: Weight decay of Adam.
        epochs: Number of passes over the training pairs.

    Raises:
        ValueError: if a value is out of range, or values contradict each other.
    """

    dim: Count = 128
    layers: CountOr0 = 2
    propagate: CountOr0 = 0
    item_norm_exponent: NonNegative = 0.0
    candidates: Count = 4096
    batch_size: Count | None = None
    lr: Positive = 0.01
    weight_decay: NonNegative = 0.0
    epochs: Count = 16


@dataclass(frozen=True)
class RankingSettings(RankingOptions):
    """All settings of a trained recommender: options, loss, data and encoder.

    Raises:
        ValueError: if a value is out of range, or values contradict each other.
    """

    kind: ClassVar[Kind] = Kind.RANKING
    loss: RankingLossSettings = field(default_factory=RankingLossSettings)
    data: RankingData = field(default_factory=RankingData)
    encoder: str = "mf"
    parts: ClassVar = {
        "loss": RankingLossSettings.pop_from,
        "data": RankingData.pop_from,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("encoder", self.encoder, tuple(ENCODERS))

    @property
    def method(self) -> str:
        """Name of the loss."""
        return self.loss.loss

    def with_method(self, name: str) -> Self:
        """Return the settings with a loss and its default hyper-parameters."""
        return replace(self, loss=RankingLossSettings(name))


_REGULARIZATION = {POPULARITY: 1.0, EASE_NAME: 300.0, IALS_NAME: 0.03}


@dataclass(frozen=True)
class BaselineSettings(StoredSettings):
    """Settings of a baseline; see :class:`~bayescl_lab.ranking.ials.IALS` for the objective.

    Attributes:
        encoder: Kind of baseline: popularity, ease or ials.
        data: Data set, and options to read it.
        regularization: L2 penalty. Default: 300 for ease, 0.03 for ials.
        evaluate_on: Split to evaluate on, "test" or "validation".
        dim: Length of an embedding of ials.
        unobserved_weight: Weight of every pair of a user and an item in ials. Interactions have an
            additional weight of 1.
        epochs: Number of times that ials solves for items, then for users; 1 for other baselines.
        seed: Seed of the initial embeddings of ials.
    """

    encoder: Baseline
    data: RankingData = field(default_factory=RankingData)
    regularization: Positive | None = None
    evaluate_on: Literal["test", "validation"] = "test"
    dim: Count = 64
    unobserved_weight: Positive = 0.1
    epochs: Count = 16
    seed: CountOr0 = 0
    parts: ClassVar = {"data": RankingData.pop_from}

    def __post_init__(self) -> None:
        if self.regularization is None:
            object.__setattr__(self, "regularization", _REGULARIZATION[self.encoder])
        if self.encoder != IALS_NAME:
            object.__setattr__(self, "epochs", 1)

    @property
    def method(self) -> str:
        """Name of the baseline."""
        return self.encoder

    def fitted(self, train: Interactions) -> Scorer:
        """Fit the baseline to interactions; raise ``ValueError`` if there are too many items."""
        penalty = float(self.regularization or 0)
        if self.encoder == POPULARITY:
            return Popularity(train)
        if self.encoder == EASE_NAME:
            return EASE(train, penalty)
        return IALS(
            train,
            dim=self.dim,
            regularization=penalty,
            unobserved_weight=self.unobserved_weight,
            epochs=self.epochs,
            seed=self.seed,
        )

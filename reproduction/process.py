r"""The generative process, and estimators of the mean observation of true negatives.

Each anchor's scores come from a proposal distribution before they are split into classes:

``slide``
    :math:`U(-0.5 + s, 0.5 + s)` with a slide :math:`s \sim U(-\gamma, \gamma)` of each anchor's
    own: the text of section "Numerical Experiment".
``script``
    :math:`U(a, b)` with :math:`a` uniform in the lowest share :math:`\gamma` of
    :math:`[-1/t^2, 0]` and :math:`b` in the highest share of :math:`[0, 1/t^2]`, as in the authors'
    published script. Observations then span thirty orders of magnitude at :math:`t = 0.3`.

Scores of a class are drawn by inversion of the closed-form CDFs. All numbers are float64.

Every contrastive loss here is :math:`-\log\frac{e^{s^+}}{e^{s^+} + N\hat\theta}` for some estimate
:math:`\hat\theta` of the mean observation of an anchor's true negatives. The debiased and the hard
estimate are computed from the objectives of the library, including the floor, so the experiments
measure the losses that are used in training.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from bayescl import functional as F
from bayescl_lab._fields import Count, NonNegative, Positive, at_least, between

Proposal = Literal["slide", "script"]

CHUNK_ELEMENTS = 2**16
"""Number of scores drawn at a time. A chunk and its results take about ten megabytes."""

HIGHEST_LOGIT = 350.0
"""Largest logit at which squared observations and errors fit into float64."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One point in the parameter space of the numerical experiments.

    Attributes:
        anchors: Number M of anchors in one draw.
        candidates: Number N of unlabeled candidates of each anchor.
        alpha: Probability that a positive outscores a negative.
        beta: Hardness of the Bayesian estimators.
        gamma: Largest slide of an anchor's interval.
        tau_plus: Prior probability that a candidate is a positive.
        temperature: Softmax scale t, which divides scores.
        positives: Number K of positives for the debiased and hard estimators.
        concentration: Exponent of the hard estimator.
        proposal: Proposal distributions: slide (the paper's text) or script (the authors' script).
        draws: Number of repetitions.

    Reference:
        Liu et al., ICML 2024, appendix "Parameter Settings".
    """

    anchors: Count = 1000
    candidates: Count = 64
    alpha: Annotated[float, between(0.5, 1)] = 0.9
    beta: Annotated[float, between(0.5, 1)] = 0.5
    gamma: Annotated[float, between(0, 1)] = 0.1
    tau_plus: Annotated[float, Field(gt=0, lt=1, description="between 0 and 1")] = 0.1
    temperature: Positive = 0.5
    positives: Count = 10
    concentration: NonNegative = 1.0
    proposal: Proposal = "slide"
    draws: Annotated[int, at_least(2)] = 20

    def __post_init__(self) -> None:
        if self.alpha == 1 and self.beta == 1:
            raise ValueError("alpha and beta must not both be 1: the target is then empty")


def generator(seed: int, *path: object) -> torch.Generator:
    """Return the random generator of a draw, given by its experiment, values and repetition.

    Each draw has its own stream, so results do not depend on the selection of experiments.
    """
    words = [zlib.crc32(str(part).encode()) for part in path]
    state = np.random.SeedSequence(seed, spawn_key=tuple(words)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]) >> 1)


Draw = TypeVar("Draw")


def over_draws(
    measure: Callable[[torch.Generator], Draw], settings: Settings, seed: int, *path: object
) -> list[Draw]:
    """Measure every draw of the process, each with its own random generator."""
    return [measure(generator(seed, *path, index)) for index in range(settings.draws)]


def mean_and_error(values: Sequence[float] | Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean over the first dimension, and its standard error.

    Example:
        >>> mean_and_error([1.0, 2.0, 3.0])
        (tensor(2., dtype=torch.float64), tensor(0.5774, dtype=torch.float64))
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    return values.mean(dim=0), values.std(dim=0) / len(values) ** 0.5


Quantile = Callable[[Float[Tensor, "anchors columns"]], Float[Tensor, "anchors columns"]]
"""Function that converts levels in [0, 1] to scores, by the proposal of each row."""


def draw_proposals(settings: Settings, count: int, generator: torch.Generator) -> Quantile:
    """Draw the proposal distributions of ``count`` anchors."""
    slides = torch.rand((2, count, 1), generator=generator, dtype=torch.float64)
    if settings.proposal == "slide":
        center = settings.gamma * (2 * slides[0] - 1)
        low, high = center - 0.5, center + 0.5
    else:
        limit = 1 / settings.temperature**2
        of_low, of_high = settings.gamma * limit * slides
        low, high = of_low - limit, limit - of_high
    # A convex combination, so that rounding cannot leave the interval by more than an ulp.
    return lambda level: low * (1 - level) + high * level


def levels_of(
    true_negative: Bool[Tensor, "anchors columns"], *, alpha: float, generator: torch.Generator
) -> Float[Tensor, "anchors columns"]:
    """Draw the level of a score for every label, by inverting the CDF of its class.

    A label is True for a true negative, False for a false negative or, equivalently, a positive. A
    score's level is its proposal CDF. The paper's accept-reject algorithms draw from the same
    distribution.
    """
    uniform = torch.rand(true_negative.shape, generator=generator, dtype=torch.float64)
    level = F.PairMixture.true_negatives(alpha).quantile(uniform)
    level[~true_negative] = F.PairMixture.false_negatives(alpha).quantile(uniform[~true_negative])
    return level


def independent_pair_auc(alpha: float) -> float:
    r"""Compute the AUC of independent positives and true negatives, in [1/2, 5/6].

    For any proposal distribution,

    .. math::
        P(x^+ > x^-) = \int \Phi_{TN}\,d\Phi_{FN} = \tfrac12 + \tfrac{2\alpha - 1}{3} \le \tfrac56 .

    So alpha is not the ROC-AUC of scores against labels, though the AUC increases with it.

    Example:
        >>> round(independent_pair_auc(0.9), 4), round(independent_pair_auc(1.0), 4)
        (0.7667, 0.8333)
    """
    return 0.5 + (2 * alpha - 1) / 3


class Observations(NamedTuple):
    """Visible and hidden variables of anchors.

    Scores are divided by the temperature; an observation in the paper is the exponential of such a
    logit.

    Attributes:
        unlabeled: Logits of the unlabeled candidates.
        true_negative: Hidden labels: True for a true negative.
        positives: Logits of positives, drawn from the density of false negatives.
        quantile: Proposal distributions of the anchors.
    """

    unlabeled: Float[Tensor, "anchors candidates"]
    true_negative: Bool[Tensor, "anchors candidates"]
    positives: Float[Tensor, "anchors positives"]
    quantile: Quantile


def observe(settings: Settings, generator: torch.Generator) -> Iterator[Observations]:
    """Run the generative process for ``settings.anchors`` anchors, in chunks of some megabytes.

    Raises:
        ValueError: if the temperature is so low that squared observations overflow.

    Example:
        >>> chunk = next(observe(Settings(anchors=3), torch.Generator().manual_seed(0)))
        >>> chunk.unlabeled.shape, chunk.positives.shape
        (torch.Size([3, 64]), torch.Size([3, 10]))

    Reference:
        Liu et al., ICML 2024, Algorithm "Numerical experiments".
    """
    size = max(1, CHUNK_ELEMENTS // settings.candidates)
    count = settings.candidates
    for start in range(0, settings.anchors, size):
        anchors = min(size, settings.anchors - start)
        quantile = draw_proposals(settings, anchors, generator)
        chance = torch.rand((anchors, count), generator=generator, dtype=torch.float64)
        true_negative = chance > settings.tau_plus
        # Positives and false negatives have the same density, so they are drawn in one go.
        wanted = torch.zeros((anchors, settings.positives), dtype=torch.bool)
        labels = torch.cat([true_negative, wanted], dim=1)
        level = levels_of(labels, alpha=settings.alpha, generator=generator)
        logits = quantile(level) / settings.temperature
        highest = float(logits.max())
        if highest > HIGHEST_LOGIT:
            raise ValueError(
                f"temperature {settings.temperature} is too low for {settings.proposal} proposals: "
                f"logits reach {highest:.3g}, so squares of their exponentials overflow"
            )
        unlabeled, positives = logits[:, :count].contiguous(), logits[:, count:].contiguous()
        yield Observations(unlabeled, true_negative, positives, quantile)


def estimates(observed: Observations, settings: Settings) -> dict[str, Float[Tensor, " anchors"]]:
    r"""Compute every estimator for each anchor; return the values by name.

    =========================== ===============================================================
    ``supervised``              realized mean of the anchor's true negatives (Eq. "true"); NaN
                                for an anchor that has none
    ``biased``                  mean of all candidates
    ``debiased``                the candidates' sum less the positives' share, from K positives
                                (Eq. "DCLEstimator"), not below the floor :math:`e^{-1/t}`
    ``hard``                    the same with candidates weighted by a power of themselves
    ``bayesian_upper``          mean of candidates times importance weights, from upper ranks: the
                                paper's
    ``bayesian_mid``            the same from mid-ranks
    =========================== ===============================================================

    Reference:
        Liu et al., ICML 2024, Eqs. "true", "BiasedEstimator", "DCLEstimator" and "ome1"; Robinson
        et al., ICLR 2021, Eq. 4.
    """
    unlabeled, tau_plus = observed.unlabeled, settings.tau_plus
    observation, counted, count = unlabeled.exp(), observed.true_negative, unlabeled.shape[1]
    # The losses know one positive logit; K positives enter as the logarithm of their mean.
    positive = observed.positives.logsumexp(dim=1) - math.log(observed.positives.shape[1])
    floor = -1 / settings.temperature
    debiased, hard = F.Debiased(tau_plus, floor), F.Hard(tau_plus, floor, settings.concentration)
    values = {
        "supervised": (observation * counted).sum(dim=1) / counted.sum(dim=1),
        "biased": observation.mean(dim=1),
        "debiased": implied_mean(debiased(positive, unlabeled), positive, count),
        "hard": implied_mean(hard(positive, unlabeled), positive, count),
    }
    for ranks in ("upper", "mid"):
        weight = F.logit_weights(
            unlabeled, alpha=settings.alpha, beta=settings.beta, tau_plus=tau_plus, ranks=ranks
        )
        values[f"bayesian_{ranks}"] = (weight * observation).mean(dim=1)
    return values


def implied_mean(
    loss: Float[Tensor, "*shape"], positive: Float[Tensor, "*shape"], count: int
) -> Float[Tensor, "*shape"]:
    r"""Compute the mean negative observation that a loss over ``count`` candidates implies.

    This solves :math:`\mathrm{loss} = \log(1 + N\theta\,e^{-s^+})` for :math:`\theta`.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> implied_mean(F.info_nce_loss(positive, unlabeled), positive, 2), unlabeled.exp().mean()
        (tensor([1.8591]), tensor(1.8591))
    """
    return positive.exp() * torch.expm1(loss) / count

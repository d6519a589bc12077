"""The parameters of the generative process, with the paper's values as defaults, and its seeds."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from bayescl.checks import (
    check_choice,
    check_count,
    check_interval,
    check_non_negative,
    check_positive,
)

Proposal = Literal["slide", "script", "normal"]
PROPOSALS = ("slide", "script", "normal")
"""Families of proposal distributions; see :mod:`bayescl_lab.paper.simulation.proposals`."""

SAMPLERS = ("inversion", "accept-reject")
"""Ways to draw from the class-conditional densities; see ``samplers.py``."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One point in the parameter space of the numerical experiments.

    Args:
        anchors: number M of anchors in one draw of the experiment, at least 1.
        candidates: number N of unlabeled candidates of each anchor, at least 1.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        beta: hardness that the Bayesian estimators aim at, in [0.5, 1].
        gamma: how far an anchor's interval may slide, in [0, 1]; see
            :mod:`bayescl_lab.paper.simulation.proposals`.
        tau_plus: prior probability that a candidate is a positive, in (0, 1).
        temperature: softmax scale t, which divides scores; positive.
        positives: number K of positives that the debiased and hard estimators see, at least 1.
        concentration: exponent of the hard estimator, at least 0.
        proposal: ``"slide"``, ``"script"`` or ``"normal"``.
        sampler: ``"inversion"`` or ``"accept-reject"``.
        draws: number of repetitions of an experiment, at least 2 for the bands.

    Raises:
        ValueError: if a parameter is out of range.

    Example:
        >>> Settings().candidates
        64
        >>> Settings(alpha=0.3)
        Traceback (most recent call last):
            ...
        ValueError: alpha must lie in [0.5, 1], got 0.3

    Reference:
        Liu et al., ICML 2024, appendix "Parameter Settings".
    """

    anchors: int = 1000
    candidates: int = 64
    alpha: float = 0.9
    beta: float = 0.5
    gamma: float = 0.1
    tau_plus: float = 0.1
    temperature: float = 0.5
    positives: int = 10
    concentration: float = 1.0
    proposal: Proposal = "slide"
    sampler: Literal["inversion", "accept-reject"] = "inversion"
    draws: int = 20

    def __post_init__(self) -> None:
        check_count("anchors", self.anchors, 1)
        check_count("candidates", self.candidates, 1)
        check_interval("alpha", self.alpha, 0.5, 1.0)
        check_interval("beta", self.beta, 0.5, 1.0)
        if self.alpha == 1 and self.beta == 1:
            raise ValueError("alpha and beta must not both be 1: the target is then empty")
        check_interval("gamma", self.gamma, 0.0, 1.0)
        check_interval("tau_plus", self.tau_plus, 0.0, 1.0, open_low=True, open_high=True)
        check_positive("temperature", self.temperature)
        check_count("positives", self.positives, 1)
        check_non_negative("concentration", self.concentration)
        check_choice("proposal", self.proposal, PROPOSALS)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_count("draws", self.draws, 2)


def generator(seed: int, *path: object) -> torch.Generator:
    """The generator of the draw named by ``path``.

    Each draw has its own stream, so an experiment gives the same numbers whether it runs alone
    or among others, and adding a value to a sweep leaves the others as they were.

    Args:
        seed: seed of the whole run, at least 0.
        path: identifies the draw by printed values, such as the experiment's name, the value and
            the repetition.

    Raises:
        ValueError: if ``seed`` is not a whole number of at least 0.

    Example:
        >>> torch.rand(2, generator=generator(0, "mse", 1)).equal(
        ...     torch.rand(2, generator=generator(0, "mse", 1))
        ... )
        True
    """
    check_count("seed", seed, 0)
    words = [zlib.crc32(str(part).encode()) for part in path]
    state = np.random.SeedSequence(seed, spawn_key=tuple(words)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]) >> 1)

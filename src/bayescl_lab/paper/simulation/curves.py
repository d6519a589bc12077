"""Curves from formulas without sampling, and one histogram for comparison."""

from __future__ import annotations

import torch

from bayescl import functional as F
from bayescl_lab.paper.simulation.process import observe
from bayescl_lab.paper.simulation.proposals import NormalProposals
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.tables import Table, Value

ALPHAS = (0.5, 0.7, 0.9, 1.0)
BETAS = (0.5, 0.7, 0.9, 1.0)
FIXED_ALPHA, FIXED_BETA = 0.9, 0.5
POINTS = 201
BINS = 60
EMPIRICAL_TEMPERATURE, EMPIRICAL_CANDIDATES = 2.0, 20_000
TRUE_NEGATIVE, FALSE_NEGATIVE = "true negative", "false negative"


def densities() -> Table:
    """Densities of both classes' scores for a standard normal proposal.

    Returns:
        One record per alpha and score.

    Example:
        >>> densities().number("true_negative", alpha=1.0, score=-4.0)
        0.000267652

    Reference:
        Liu et al., ICML 2024, the figure of Eqs. "phitn" and "phifn".
    """
    score = torch.linspace(-4, 4, POINTS, dtype=torch.float64)
    rows = torch.zeros(POINTS, dtype=torch.int64)
    density, cdf = NormalProposals().density(score, rows), NormalProposals().cdf(score, rows)
    records: list[dict[str, Value]] = []
    for alpha in ALPHAS:
        curves = {
            "proposal": density,
            "true_negative": F.true_negative_density(density, cdf, alpha=alpha),
            "false_negative": F.false_negative_density(density, cdf, alpha=alpha),
        }
        records += _columns({"alpha": alpha}, {"score": score, **curves})
    return Table.of(records)


def empirical_densities(settings: Settings, seed: int) -> Table:
    """Histograms of one anchor's observations beside the densities they are drawn from.

    One anchor with 20,000 candidates at temperature 2 and a normal proposal, by accept-reject
    sampling; of the settings, only ``tau_plus`` is used.

    Returns:
        One record per alpha, class and bin: the bin's middle, the share of observations in it
        divided by its width, the standard error of that, and the closed-form density.

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the figure of empirical densities.
    """
    edges = torch.linspace(0, 6, BINS + 1, dtype=torch.float64)
    records: list[dict[str, Value]] = []
    for alpha in ALPHAS:
        point = Settings(
            anchors=1,
            candidates=EMPIRICAL_CANDIDATES,
            alpha=alpha,
            tau_plus=settings.tau_plus,
            temperature=EMPIRICAL_TEMPERATURE,
            proposal="normal",
            sampler="accept-reject",
        )
        (chunk,) = observe(point, generator(seed, "empirical", alpha))
        observation = chunk.unlabeled[0].exp()
        # The map to observations is monotone, so a bin's probability is a difference of CDFs.
        score = EMPIRICAL_TEMPERATURE * edges.log()
        cdf = NormalProposals().cdf(score, torch.zeros(BINS + 1, dtype=torch.int64))
        classes = {
            TRUE_NEGATIVE: (chunk.true_negative[0], F.true_negative_cdf(cdf, alpha=alpha)),
            FALSE_NEGATIVE: (~chunk.true_negative[0], F.false_negative_cdf(cdf, alpha=alpha)),
        }
        width = edges.diff()
        for label, (member, class_cdf) in classes.items():
            size = int(member.sum())
            share = torch.histogram(observation[member], edges).hist / size
            expected = class_cdf.diff()
            columns = {
                "observation": (edges[1:] + edges[:-1]) / 2,
                "density": share / width,
                "density_error": (expected * (1 - expected) / size).sqrt() / width,
                "expected": expected / width,
            }
            records += _columns({"alpha": alpha, "class": label, "count": size}, columns)
    return Table.of(records)


def cdf_transform(tau_plus: float) -> Table:
    """The proposal CDF against the CDF of unlabeled candidates.

    Args:
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        One record per alpha and CDF value.

    Raises:
        ValueError: if ``tau_plus`` is out of range.

    Example:
        >>> cdf_transform(0.1).number("proposal_cdf", alpha=0.9, unlabeled_cdf=0.5)
        0.353699

    Reference:
        Liu et al., ICML 2024, the figure of Eq. "cdftrans".
    """
    level = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    records: list[dict[str, Value]] = []
    for alpha in ALPHAS:
        transformed = F.proposal_cdf(level, alpha=alpha, tau_plus=tau_plus)
        columns = {"unlabeled_cdf": level, "proposal_cdf": transformed}
        records += _columns({"alpha": alpha, "tau_plus": tau_plus}, columns)
    return Table.of(records)


def weight_curves(tau_plus: float) -> Table:
    """Importance weights against the CDF of unlabeled candidates.

    Args:
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        One record per panel (``"alpha"`` or ``"beta"``, whichever is held fixed), curve and CDF
        value.

    Raises:
        ValueError: if ``tau_plus`` is out of range.

    Example:
        >>> weight_curves(0.1).number("weight", fixed="beta", alpha=0.5, unlabeled_cdf=0.5)
        1.0

    Reference:
        Liu et al., ICML 2024, Eq. "ome1".
    """
    level = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    pairs = [("alpha", FIXED_ALPHA, beta) for beta in BETAS]
    pairs += [("beta", alpha, FIXED_BETA) for alpha in ALPHAS]
    records: list[dict[str, Value]] = []
    for fixed, alpha, beta in pairs:
        proposal = F.proposal_cdf(level, alpha=alpha, tau_plus=tau_plus)
        weight = F.importance_weights(proposal, alpha=alpha, beta=beta, tau_plus=tau_plus)
        constants: dict[str, Value] = {
            "fixed": fixed,
            "alpha": alpha,
            "beta": beta,
            "tau_plus": tau_plus,
        }
        records += _columns(constants, {"unlabeled_cdf": level, "weight": weight})
    return Table.of(records)


def _columns(
    constants: dict[str, Value], columns: dict[str, torch.Tensor]
) -> list[dict[str, Value]]:
    """Records from columns of equal length, with the constants in each."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{**constants, **dict(zip(columns, row, strict=True))} for row in rows]

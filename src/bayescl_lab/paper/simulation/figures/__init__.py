"""Figures of the experiments, each drawn from a table alone. Needs Matplotlib."""

from bayescl_lab.paper.simulation.figures.curves import (
    draw_cdf_transform,
    draw_densities,
    draw_empirical,
    draw_sampling_bias,
    draw_weights,
)
from bayescl_lab.paper.simulation.figures.latent import draw_latent, draw_latent_calibration
from bayescl_lab.paper.simulation.figures.lemmas import (
    draw_convergence,
    draw_error_bound,
    draw_reliability,
)
from bayescl_lab.paper.simulation.figures.model import draw_acceptance, draw_pair_order
from bayescl_lab.paper.simulation.figures.sweeps import (
    draw_hard,
    draw_means,
    draw_mse,
    draw_ranks,
    draw_verdicts,
)

__all__ = [
    "draw_acceptance",
    "draw_cdf_transform",
    "draw_convergence",
    "draw_densities",
    "draw_empirical",
    "draw_error_bound",
    "draw_hard",
    "draw_latent",
    "draw_latent_calibration",
    "draw_means",
    "draw_mse",
    "draw_pair_order",
    "draw_ranks",
    "draw_reliability",
    "draw_sampling_bias",
    "draw_verdicts",
    "draw_weights",
]

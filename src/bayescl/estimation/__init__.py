"""The parameters of the Bayesian loss: estimated or measured."""

from bayescl.estimation.alpha import (
    MeasuredAlpha,
    anchor_aucs,
    label_free_alpha,
    measured_alpha,
    win_rates,
)
from bayescl.estimation.prior import tau_plus_of_class_sizes, tau_plus_of_labels

__all__ = [
    "MeasuredAlpha",
    "anchor_aucs",
    "label_free_alpha",
    "measured_alpha",
    "tau_plus_of_class_sizes",
    "tau_plus_of_labels",
    "win_rates",
]

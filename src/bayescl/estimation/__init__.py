"""The parameters of the Bayesian loss: estimated or measured."""

from bayescl.estimation.auc import (
    MeasuredAlpha,
    Reading,
    alpha_of_auc,
    anchor_aucs,
    macro_auc,
    measured_alpha,
)
from bayescl.estimation.label_free import (
    LabelFreeBias,
    label_free_alpha,
    label_free_bias,
    win_rates,
)
from bayescl.estimation.prior import (
    tau_plus_of_class_count,
    tau_plus_of_class_sizes,
    tau_plus_of_density,
    tau_plus_of_labels,
)

__all__ = [
    "LabelFreeBias",
    "MeasuredAlpha",
    "Reading",
    "alpha_of_auc",
    "anchor_aucs",
    "label_free_alpha",
    "label_free_bias",
    "macro_auc",
    "measured_alpha",
    "tau_plus_of_class_count",
    "tau_plus_of_class_sizes",
    "tau_plus_of_density",
    "tau_plus_of_labels",
    "win_rates",
]

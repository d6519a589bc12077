"""Latent classes of embeddings, found without labels.

=============  =================================================================================
``mixture``    mixtures of von Mises-Fisher components and their fit
``posterior``  classes from two views of each item; whether two items are of one class
``trust``      how far to trust them
=============  =================================================================================
"""

from bayescl.functional.latent_classes.mixture import (
    Mixtures,
    fit_mixtures,
    mean_kappa,
    responsibilities,
    start_mixtures,
)
from bayescl.functional.latent_classes.posterior import (
    LatentClasses,
    class_agreement,
    class_responsibilities,
    component_transitions,
    fit_latent_classes,
    further_views,
    item_responsibilities,
    known_classes,
    outlook_factors,
    outlooks,
    same_class,
    same_class_factors,
    signatures,
    unit_outlook,
)
from bayescl.functional.latent_classes.trust import (
    mixture_alignment,
    positive_closeness,
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
    view_agreement,
)

__all__ = [
    "LatentClasses",
    "Mixtures",
    "class_agreement",
    "class_responsibilities",
    "component_transitions",
    "fit_latent_classes",
    "fit_mixtures",
    "further_views",
    "item_responsibilities",
    "known_classes",
    "mean_kappa",
    "mixture_alignment",
    "outlook_factors",
    "outlooks",
    "positive_closeness",
    "responsibilities",
    "same_class",
    "same_class_factors",
    "signatures",
    "start_mixtures",
    "trust_of_agreement",
    "trust_of_closeness",
    "trust_of_share",
    "unit_outlook",
    "view_agreement",
]

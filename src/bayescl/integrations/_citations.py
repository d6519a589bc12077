"""BibTeX entries for the papers behind the losses, for model cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.losses import (
    BayesianContrastiveLoss,
    ContrastiveLoss,
    DebiasedContrastiveLoss,
    HardContrastiveLoss,
)

_BAYESIAN = """
@inproceedings{liu2024bayesian,
    title = {Bayesian Self-Supervised Contrastive Learning},
    author = {Liu, Bin and Wang, Bang and Li, Tianrui},
    booktitle = {International Conference on Machine Learning}, year = {2024}
}
"""
_DEBIASED = """
@inproceedings{chuang2020debiased,
    title = {Debiased Contrastive Learning},
    author = {Chuang, Ching-Yao and Robinson, Joshua and Lin, Yen-Chen and Torralba, Antonio and
        Jegelka, Stefanie},
    booktitle = {Advances in Neural Information Processing Systems}, year = {2020}
}
"""
_HARD = """
@inproceedings{robinson2021contrastive,
    title = {Contrastive Learning with Hard Negative Samples},
    author = {Robinson, Joshua and Chuang, Ching-Yao and Sra, Suvrit and Jegelka, Stefanie},
    booktitle = {International Conference on Learning Representations}, year = {2021}
}
"""
_INFO_NCE = """
@misc{oord2019representation,
    title = {Representation Learning with Contrastive Predictive Coding},
    author = {van den Oord, Aaron and Li, Yazhe and Vinyals, Oriol},
    eprint = {1807.03748}, archivePrefix = {arXiv}, year = {2019}
}
"""
_BY_CLASS: Mapping[type[Any], str] = {
    BayesianContrastiveLoss: _BAYESIAN,
    DebiasedContrastiveLoss: _DEBIASED,
    HardContrastiveLoss: _HARD,
}


def citation_of(loss: ContrastiveLoss) -> str:
    """Return the BibTeX entry of a loss or its nearest base class; InfoNCE's if none has one."""
    return next((_BY_CLASS[base] for base in type(loss).__mro__ if base in _BY_CLASS), _INFO_NCE)

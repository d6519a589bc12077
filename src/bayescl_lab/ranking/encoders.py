"""The table of encoders. To add one, write a module and add a row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.checks import check_choice
from bayescl_lab.ranking.encoder import Encoder, MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.light_gcn import LightGCN

SHARED = ("dim", "score", "initial_scale")
"""Settings that every encoder takes."""

ENCODERS: Mapping[str, type[Encoder]] = {"mf": MatrixFactorization, "lightgcn": LightGCN}
"""Every encoder by its name, in the order of the paper's tables."""


def build_encoder(name: str, train: Interactions, settings: Mapping[str, object]) -> Encoder:
    """Build an encoder by its name, with weights from torch's global generator.

    Args:
        name: one of :data:`ENCODERS`.
        train: the interactions to train on.
        settings: values by name: all of :data:`SHARED` and the encoder's own. Settings of other
            encoders are ignored.

    Raises:
        ValueError: if there is no such encoder, or a setting is out of range.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=3)
        >>> settings = {"dim": 4, "layers": 2, "score": "cosine", "initial_scale": 0.1}
        >>> build_encoder("lightgcn", train, settings)
        LightGCN(2 users, 3 items, dim=4, 'cosine', layers=2)
        >>> build_encoder("mf", train, settings)
        MatrixFactorization(2 users, 3 items, dim=4, 'cosine')
    """
    check_choice("encoder", name, tuple(ENCODERS))
    kind = ENCODERS[name]
    options: Any = {name: settings[name] for name in (*SHARED, *kind.own_settings)}
    return kind(train, **options)

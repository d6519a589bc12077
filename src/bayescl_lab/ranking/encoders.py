"""Table of encoders. A new encoder needs a module and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.checks import check_choice
from bayescl_lab.ranking.encoder import Encoder, MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.light_gcn import LightGCN

ENCODERS: Mapping[str, type[Encoder]] = {"mf": MatrixFactorization, "lightgcn": LightGCN}
"""Encoders by name, in the order of the paper's tables."""


def build_encoder(name: str, train: Interactions, settings: Mapping[str, object]) -> Encoder:
    """Build an encoder by its name, with weights from torch's global generator.

    All encoders have the settings ``dim`` and ``score``; some have further settings. Settings of
    other encoders are ignored.

    Raises:
        ValueError: if the name is unknown, or a setting is out of range.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=3)
        >>> settings = {"dim": 4, "layers": 2, "score": "cosine"}
        >>> build_encoder("lightgcn", train, settings)
        LightGCN(2 users, 3 items, dim=4, 'cosine', layers=2)
    """
    check_choice("encoder", name, tuple(ENCODERS))
    kind = ENCODERS[name]
    names = ("dim", "score", *kind.own_settings)
    options: Any = {name: settings[name] for name in names}
    return kind(train, **options)

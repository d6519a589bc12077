from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest

from bayescl_lab._fields import (
    Count,
    NonNegative,
    Positive,
    among,
    between,
    check_fields,
    kind_of,
)

Colour = Annotated[str, among(lambda: ("red", "blue"))]


@dataclass(frozen=True)
class Settings:
    """One field of every kind."""

    epochs: Count = 1
    lr: Positive = 0.1
    weight_decay: NonNegative = 0.0
    strength: Annotated[float, between(0.0, 5.0)] | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    colour: Colour = "red"
    compiled: bool = False
    name: str | None = None
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": True}, "epochs must be a whole number of at least 1, got True"),
        ({"epochs": 2**63}, r"epochs must be below 2\^63"),
        ({"lr": 0}, "lr must be positive, got 0"),
        ({"weight_decay": -1}, "weight_decay must be at least 0, got -1"),
        ({"strength": 9}, r"strength must lie in \[0, 5\], got 9"),
        ({"optimizer": "lars"}, "optimizer must be one of adam, sgd, got 'lars'"),
        ({"colour": "green"}, "colour must be one of red, blue, got 'green'"),
        ({"compiled": 1}, "compiled must be true or false, got 1"),
        ({"name": date(2024, 1, 2)}, "name must be text, got 2024-01-02"),
        ({"rows": ("a",)}, "rows must be whole numbers"),
    ],
)
def test_a_field_refuses_what_its_hint_does_not_allow(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**values)


def test_a_field_takes_what_its_hint_allows() -> None:
    settings = Settings(epochs=3, lr=1, strength=5, optimizer="sgd", name="a", rows=(1, 2))
    assert settings.strength == 5


def test_other_hints_have_no_kind() -> None:
    assert kind_of(Settings) is None
    assert kind_of(int | str) is None

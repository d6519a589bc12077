from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, NonNegative, Positive, Words, between, format_error


@dataclass(frozen=True)
class Settings:
    """One field of every kind."""

    epochs: Count = 1
    lr: Positive = 0.1
    weight_decay: NonNegative = 0.0
    strength: Annotated[float, between(0.0, 5.0)] | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    compiled: bool = False
    name: str | None = None
    words: Words = ()

    def __post_init__(self) -> None:
        if self.name == "none":
            raise ValueError("name must be another")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": 2**63}, "epochs must be less than 9223372036854775808"),
        ({"epochs": 1.5}, "epochs must be a valid integer"),
        ({"lr": 0}, "lr must be above 0, got 0"),
        ({"lr": float("inf")}, "lr must be a finite number, got inf"),
        ({"weight_decay": -1}, "weight_decay must be at least 0, got -1"),
        ({"strength": 9}, "strength must be at most 5, got 9"),
        ({"optimizer": "lars"}, "optimizer must be 'adam' or 'sgd', got lars"),
        ({"compiled": 3}, "compiled must be a valid boolean"),
        ({"name": date(2024, 1, 2)}, "name must be a valid string, got 2024-01-02"),
        ({"name": "none"}, "name must be another"),
    ],
)
def test_a_field_refuses_what_its_hint_does_not_allow(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Settings(**values)
    assert format_error(raised.value).startswith(message)


def test_a_field_takes_what_its_hint_allows() -> None:
    settings = Settings(epochs=3, lr=1, strength=5, optimizer="sgd", words=("a,b", "c"))
    assert settings.strength == 5
    assert settings.words == ("a", "b", "c")

"""Names that doctests may use without importing them."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["torch"] = torch

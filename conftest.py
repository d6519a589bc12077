"""Names that doctests may use without importing them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

# The kernels can only be imported where there is a Triton to decorate them with.
collect_ignore_glob = [] if find_spec("triton") else ["src/bayescl/engines/_fused_*.py"]


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["torch"] = torch

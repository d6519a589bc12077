"""Names that doctests may use without importing them, and files that need what is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

# What each of these files imports at its top, by the pattern of their paths.
_NEEDED = {
    "src/bayescl/integrations/sentence_transformers.py": "sentence_transformers",
    "src/bayescl/integrations/pytorch_metric_learning.py": "pytorch_metric_learning",
}
collect_ignore_glob = [pattern for pattern, library in _NEEDED.items() if not find_spec(library)]
collect_ignore = ["tests/library/alone.py"]  # a program of its own


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["torch"] = torch

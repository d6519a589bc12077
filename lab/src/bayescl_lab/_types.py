"""Types of values that come from files or go to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Config = dict[str, Any]
"""Plain values by name, as in YAML and JSON files."""

Values = Mapping[str, Any]
"""Read-only plain values by name."""

Ids = NDArray[np.generic]
"""Ids of users, items or images: numbers or text."""

AnyArray = NDArray[Any]
"""Array of any type, as in archives."""

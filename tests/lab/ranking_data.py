"""Interactions that every recommender must solve: groups of users who choose one group of items."""

from pathlib import Path

import numpy as np

COLUMNS = "--data bought.csv --user-column customer --item-column product"
OPTIONS = f"{COLUMNS} --dim 8 --candidates 8 --batch-size 6 --lr 0.03 --epochs 20 --device cpu"
"""Options of a recommender of the table below that trains within a second."""


def write_groups(folder: Path) -> Path:
    """A table of 48 users and 24 items, in which user ``u-4`` chose most items of group 4 % 3."""
    draws = np.random.default_rng(0).random((48, 24))
    alike = np.arange(48)[:, None] % 3 == np.arange(24)[None] % 3
    chosen = np.argwhere(alike & (draws < 0.8))
    lines = [f"u-{user},film {item},{1 + (user + item) % 5}" for user, item in chosen]
    file = folder / "bought.csv"
    file.write_text("\n".join(["customer,product,stars", *lines]) + "\n", encoding="utf-8")
    return file

"""Interactions that every recommender must solve: groups of users who choose one group of items."""

from pathlib import Path

import numpy as np

COLUMNS = "--data bought.csv --user-column customer --item-column product"
OPTIONS = f"{COLUMNS} --dim 8 --candidates 8 --batch-size 6 --lr 0.03 --epochs 20 --device cpu"
"""Options of a recommender of the table below that trains within a second."""


def write_groups(folder: Path, *, users: int = 48, items: int = 24, groups: int = 3) -> Path:
    """A table in which user ``u-3`` chose most items of the group ``3 % groups``."""
    draws = np.random.default_rng(0).random((users, items))
    alike = np.arange(users)[:, None] % groups == np.arange(items)[None] % groups
    chosen = np.argwhere(alike & (draws < 0.8))
    lines = [f"u-{user},film {item},{1 + (user + item) % 5}" for user, item in chosen]
    file = folder / "bought.csv"
    file.write_text("\n".join(["customer,product,stars", *lines]) + "\n", encoding="utf-8")
    return file

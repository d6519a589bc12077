"""A made-up shop: customers with latent tastes, products of very unequal popularity.

python benchmarks/made_up_shop.py shop.csv
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl


def made_up_shop(users: int = 3000, items: int = 1500, tastes: int = 8) -> pl.DataFrame:
    """A purchase in every row; a customer draws products by taste and popularity."""
    draws = np.random.default_rng(0)
    people, goods = (draws.normal(size=(number, tastes)) for number in (users, items))
    taste = 2 * people @ goods.T / tastes**0.5
    appeal = taste - 0.8 * np.log1p(draws.permutation(items))
    order = np.argsort(draws.gumbel(size=appeal.shape) + appeal, axis=1)[:, ::-1]
    bought = np.clip(draws.lognormal(3, 0.7, users), 5, items // 4).astype(int)
    columns = np.concatenate([row[:count] for row, count in zip(order, bought, strict=True)])
    return pl.DataFrame({"customer": np.repeat(np.arange(users), bought), "product": columns})


if __name__ == "__main__":
    made_up_shop().write_csv(sys.argv[1])

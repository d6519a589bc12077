"""
A recommender from a CSV file
=============================

This example reads a table of users and items, trains a recommender, and lists ten recommendations.
"""

# %%
# A table
# -------
# Use your own file here. This one has 120 random users, 60 items and four groups of tastes.

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.ranking_run import train_ranking
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.ranking.serving import Recommender

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests
epochs = 1 if smoke else 15

folder = Path(tempfile.mkdtemp())
generator = np.random.default_rng(0)
lines = ["customer,product"]
for user in range(120):
    liked = 15 * (user % 4) + generator.choice(15, size=9, replace=False)
    lines += [f"customer {user},product {item}" for item in liked]
table = folder / "purchases.csv"
table.write_text("\n".join(lines))

# %%
# Training
# --------
# A fifth of each user's items is held out. The command does the same:
# ``bayescl train ranking --data purchases.csv --user-column customer --item-column product``.

settings = RankingSettings(
    loss=RankingLossSettings("info_nce"),
    data=RankingData(str(table), user_column="customer", item_column="product"),
    epochs=epochs,
    batch_size=32,
    dim=16,
    lr=0.02,
)
result = train_ranking(settings, folder / "run")
for name in ("recall@10", "ndcg@10", "precision@10"):
    print(f"{name:15} {result.row.scores[name].mean:.3f}")

# %%
# Recommendations
# ---------------
# The list excludes the products that the customer has bought.

recommender = Recommender(folder / "run")
best = recommender.recommend("customer 7", k=10)
print(best)

# %%
# Customer 7 has the fourth taste: products 45 to 59.

figure, axis = plt.subplots(figsize=(6, 3))
axis.barh(best["item"].to_list(), best["score"].to_list(), color="#1f77b4")
axis.set(xlabel="score")
axis.invert_yaxis()
figure.tight_layout()
plt.show()

"""Compare recommenders in Cornac; the ratings are drawn from a few tastes, so no download.

pip install 'bayescl[cornac]' && python examples/cornac_experiment.py
"""

import cornac
import numpy as np
from cornac.eval_methods import RatioSplit

from bayescl_lab.integrations.cornac import ContrastiveRecommender as Recommender

generator = np.random.default_rng(0)
ratings = []
for user in range(80):
    liked = 12 * (user % 4) + generator.choice(12, size=8, replace=False)
    ratings += [(f"user {user}", f"item {item}", 1.0) for item in liked]

split = RatioSplit(data=ratings, test_size=0.25, rating_threshold=0.5, seed=1, verbose=False)
model = Recommender(seed=1)
recall = cornac.metrics.Recall(k=10)
experiment = cornac.Experiment(
    eval_method=split, models=[cornac.models.MostPop(), model], metrics=[recall]
)
experiment.run()

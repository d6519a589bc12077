r"""Scores for a user who was not in training, from the user's items.

A new user with items :math:`I` has no trained embedding. It is predicted from the mean embedding of
the items, by the linear map that is best for the users in training:

.. math::
    u = W^\top \frac{1}{|I|} \sum_{i \in I} v_i, \qquad
    W = \arg\min_W \sum_{u'} \Big\| u' - W^\top \frac{1}{|I_{u'}|} \sum_{i \in I_{u'}} v_i \Big\|^2
        + \lambda \|W\|^2 .

The prediction is scaled to the mean length of the users in training, 1 for cosines, so scores of
new users have the same scale as other scores.

The mean itself would be too close to popular items. Training an embedding with the loss would need
the loss and its settings for serving.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bayescl.functional import unit_vectors
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import EmbeddingScorer

_SHRINKAGE = 0.01
"""Penalty relative to the mean square of a coordinate. A factor of ten has little effect."""


class NewcomerScorer:
    """Scores for new users, from trained embeddings and the training interactions.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1, 1], [0, 1, 2, 3], user_ids=2, item_ids=4)
        >>> items = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> newcomers = NewcomerScorer(EmbeddingScorer(torch.eye(2), items), train)
        >>> newcomers.scores_from(torch.tensor([0]))
        tensor([1., 1., 0., 0.])
    """

    def __init__(self, scorer: EmbeddingScorer, train: Interactions) -> None:
        self.items = scorer.items.cpu()
        counts = np.diff(train.matrix.indptr)
        active = np.flatnonzero(counts)  # users with items
        sums = torch.from_numpy(train.matrix @ self.items.numpy())[active].double()
        means = sums / torch.from_numpy(counts[active])[:, None]
        gram = means.T @ means
        penalty = _SHRINKAGE * gram.diagonal().mean().clamp(min=torch.finfo(torch.float32).tiny)
        gram.diagonal().add_(penalty)
        users = scorer.users.cpu()[active].double()
        self.map: Tensor = torch.linalg.solve(gram, means.T @ users).float()
        self.length = float(users.norm(dim=1).mean())

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the scores of all items for a new user with at least one item."""
        predicted = unit_vectors(self.items[items].mean(dim=0) @ self.map)
        return self.items @ (predicted * self.length)

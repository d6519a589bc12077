"""
Your own loss
=============

Your own loss can be a function of logits or a small frozen class. A function is shorter. A class
works with every engine, and never needs the whole matrix of logits.
"""

# %%
# As a function
# -------------
# In decoupled contrastive learning, the positive is not in the denominator.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch

import bayescl
from bayescl.functional import LogSumObjective


def decoupled(positive, unlabeled, *, valid=None):
    """Return one loss per anchor."""
    if valid is not None:
        unlabeled = unlabeled.masked_fill(~valid, -torch.inf)
    losses = unlabeled.logsumexp(dim=1) - positive
    return losses.where(losses > -torch.inf, 0)  # an anchor without candidates has the loss 0


torch.manual_seed(0)
view_1, view_2 = torch.randn(2, 64, 16)
as_function = bayescl.ContrastiveLoss(decoupled, temperature=0.2)
print(as_function(view_1, view_2))

# %%
# As a class
# ----------
# A class declares the sums of exponentials that it needs, and computes the loss from them. Here, it
# needs one sum, of the exponentials of the logits.


@dataclass(frozen=True)
class Decoupled(LogSumObjective):
    """Decoupled contrastive learning."""

    def from_log_sums(self, positive, log_sums):
        """Return one loss per anchor."""
        losses = log_sums[0] - positive
        return losses.where(losses > -torch.inf, 0)


as_data = bayescl.ContrastiveLoss(Decoupled(), temperature=0.2, engine="blocked")
print(as_data(view_1, view_2))

# %%
# Weights by rank
# ---------------
# A class can also weight candidates by their rank. This one excludes the most similar tenth.


@dataclass(frozen=True)
class WithoutTheNearest(LogSumObjective):
    """InfoNCE without each anchor's most similar candidates."""

    share: float = 0.1
    ranks = "mid"

    def weights_of_cdf(self, cdf):
        """Return 1 below the cut and 0 above it."""
        return (cdf <= 1 - self.share).to(cdf.dtype)


trimmed = bayescl.ContrastiveLoss(WithoutTheNearest(), temperature=0.2)
print(trimmed(view_1, view_2))

cdf = torch.linspace(0.01, 1, 100)
figure, axis = plt.subplots(figsize=(6, 3))
axis.step(cdf, WithoutTheNearest().weights_of_cdf(cdf))
axis.set(xlabel="rank of a candidate, as a share of all", ylabel="weight")
figure.tight_layout()
plt.show()

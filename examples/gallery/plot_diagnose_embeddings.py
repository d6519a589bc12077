"""
Diagnosing embeddings
=====================

Do you have false negatives, and would a loss find them? All it takes is two views of some items,
and for the full answer their labels.
"""

# %%
# Embeddings
# ----------
# Any embeddings will do. Ours are the leading principal components of noisy digits.

import torch
from sklearn.datasets import load_digits

import bayescl
from bayescl.diagnostics import diagnose, reliability_figure, score_candidates, weights_figure

torch.manual_seed(0)
digits = load_digits()
pixels = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)

centered = pixels - pixels.mean(0)
axes = torch.linalg.svd(centered, full_matrices=False).Vh[:16]
views = [(centered + 0.15 * torch.randn_like(centered)) @ axes.T for _ in range(2)]

# %%
# What the loss sees
# ------------------
# The loss is called as in training. Labels only judge.

loss = bayescl.BayesianContrastiveLoss(num_classes=10, alpha=0.9, beta=0.5)
batches = []
for items in torch.randperm(len(labels))[:1024].split(256):
    view_1, view_2 = (view[items] for view in views)
    batches.append(score_candidates(loss, view_1, view_2, labels=labels[items]))
found = diagnose(batches)

print(f"share of false negatives:          {found.measured_tau_plus:.3f}")
print(f"share that the loss assumes:       {found.assumed_tau_plus:.3f}")
print(f"small weights find them (AUC):     {found.by_weight.roc_auc:.3f}")
print(f"mean weight of false negatives:    {found.mean_weight_false:.3f}")
print(f"mean weight of true negatives:     {found.mean_weight_true:.3f}")
print(f"candidates, in effect:             {found.effective.in_gradient:.0f}")

# %%
# Weights
# -------
# The further apart the two histograms, the better the loss tells false negatives from true ones.

figure = weights_figure(found)

# %%
# Calibration
# -----------
# Of the candidates with a posterior of 0.8, are 80 % true negatives?

figure = reliability_figure(found)

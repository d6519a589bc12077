"""
Diagnosing embeddings
=====================

This example counts false negatives in embeddings and compares how losses weight them. It uses
embeddings of two views and labels.
"""

# %%
# Embeddings
# ----------
# Use any embeddings. These are the leading principal components of noisy digits.

import torch
from sklearn.datasets import load_digits

import bayescl
from bayescl.diagnostics import diagnose, score_candidates
from bayescl_lab.inspect.measures import diagnose_embeddings
from bayescl_lab.inspect.page import similarity_figure

torch.manual_seed(0)
digits = load_digits()
pixels = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)

centered = pixels - pixels.mean(0)
axes = torch.linalg.svd(centered, full_matrices=False).Vh[:16]
view_1, view_2 = ((centered + 0.15 * torch.randn_like(centered)) @ axes.T for _ in range(2))

# %%
# How many false negatives are there?
# -----------------------------------
# A batch of 256 items in two views gives every anchor 510 candidates.

diagnosis = diagnose_embeddings(view_1, view_2, labels=labels)

print(f"candidates of an anchor:       {diagnosis.candidates}")
print(f"of them false negatives:       {diagnosis.false_negatives:.1f}")
print(f"among the most similar 4 %:    {diagnosis.nearest_false:.0%}")

# %%
# How does each loss weight them?
# -------------------------------
# The repulsion of a candidate is its weight times the exponential of its logit. The table shows the
# fraction of the repulsion that falls on false negatives.

print("loss             weight of false   of true   repulsion on false")
losses = {
    "InfoNCE": bayescl.InfoNCELoss(),
    "hard": bayescl.HardContrastiveLoss(tau_plus=0.1),
    "Bayesian": bayescl.BayesianContrastiveLoss(tau_plus=0.1),
    "oracle": bayescl.OracleContrastiveLoss(),
}
batch = torch.randperm(len(labels))[:256]
for name, loss in losses.items():
    found = diagnose([score_candidates(loss, view_1[batch], view_2[batch], labels=labels[batch])])
    false, true = found.mean_weight_false, found.mean_weight_true
    print(f"{name:15}  {false:15.2f}   {true:7.2f}   {found.false_share:18.1%}")

# %%
# Similarity of the candidates
# ----------------------------
# If false negatives are more similar than true negatives, similarity can find them.

figure = similarity_figure(diagnosis)

# %%
# From a file
# -----------
# ``bayescl inspect embeddings.npz`` does the same for a file and writes one HTML page.

"""
False negatives in a batch
==========================

In a batch of 256 handwritten digits, about one candidate in ten shows the anchor's digit. A
contrastive loss pushes it away like all other candidates.
"""

# %%
# The batch
# ---------
# The images are scikit-learn's digits. The similarities are cosines of the centered pixels, without
# training.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

digits = load_digits()
pixels = torch.tensor(digits.data, dtype=torch.float32)
labels = torch.tensor(digits.target)

generator = torch.Generator().manual_seed(0)
batch = torch.randperm(len(pixels), generator=generator)[:256]
embeddings = torch.nn.functional.normalize(pixels[batch] - pixels.mean(0), dim=1)

# %%
# Five anchors and their most similar candidates
# ----------------------------------------------
# Each row shows an anchor and its eight most similar candidates, which have the largest weights in
# the gradient of InfoNCE. Red frames mark candidates with the anchor's digit.

similarity = embeddings @ embeddings.T
similarity.fill_diagonal_(-torch.inf)
nearest = similarity.topk(8).indices
anchors = [int((labels[batch] == digit).nonzero()[0]) for digit in (0, 2, 3, 6, 7)]

figure, axes = plt.subplots(5, 9, figsize=(7.2, 4.2))
for row, anchor in zip(axes, anchors, strict=True):
    shown = [anchor, *nearest[anchor].tolist()]
    for column, (axis, item) in enumerate(zip(row, shown, strict=True)):
        axis.imshow(pixels[batch[item]].reshape(8, 8).numpy(), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
        same = column > 0 and labels[batch[item]] == labels[batch[anchor]]
        color = "#1f77b4" if column == 0 else "#d62728" if same else "#cccccc"
        for spine in axis.spines.values():
            spine.set(color=color, linewidth=3 if same or column == 0 else 1)
axes[0, 0].set_title("anchor", fontsize=9)
axes[0, 4].set_title("candidates, most similar first", fontsize=9)
plt.show()

# %%
# How many are there?
# -------------------

same = labels[batch][:, None] == labels[batch]
same.fill_diagonal_(False)
share = same.sum() / (len(batch) * (len(batch) - 1))
among_nearest = same.gather(1, nearest).float().mean()
print(f"false negatives in the batch:              {share:.1%}")
print(f"false negatives among the eight nearest:   {among_nearest:.1%}")

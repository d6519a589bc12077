"""
Batch effects
=============

Each digit has a mark in one of six places, as images from six scanners could have. Both views of an
image show its mark, so InfoNCE learns to separate marks. With ``domains=``, an anchor is compared
only with images that have the same mark. Separating marks then no longer lowers the loss, and the
encoder learns digits.
"""

# %%
# Data
# ----
# The mark is the domain. It is known for every image, and the embedding should not depend on it.

import math
import os
from itertools import product

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from torch import nn
from torch.nn import functional as F

import bayescl

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests: two steps are enough there
steps = 2 if smoke else 300

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
domains = torch.randint(6, (len(images),))
train, test = slice(0, 1258), slice(1258, None)

marks = torch.zeros(6, 1, 8, 8)
for mark, (row, column) in zip(marks, product((0, 6), (0, 3, 6)), strict=True):
    mark[0, row : row + 2, column : column + 2] = 1


def view(rows: torch.Tensor) -> torch.Tensor:
    """Turn, scale, shift and disturb images, and put each one's mark on it."""
    count = len(rows)
    angle = math.radians(20) * (2 * torch.rand(count) - 1)
    scale = torch.empty(count).uniform_(0.8, 1.25)
    shift = torch.empty(count, 2).uniform_(-0.25, 0.25)
    first = torch.stack([scale * angle.cos(), -scale * angle.sin(), shift[:, 0]], dim=1)
    second = torch.stack([scale * angle.sin(), scale * angle.cos(), shift[:, 1]], dim=1)
    places = F.affine_grid(torch.stack([first, second], dim=1), (count, 1, 8, 8), False)
    moved = F.grid_sample(images[rows], places, align_corners=False)
    return torch.maximum(moved + 0.1 * torch.randn_like(moved), marks[domains[rows]])


# %%
# Training
# --------
# Two encoders are trained with the same loss, one of them with domains. One image in six has the
# anchor's mark, so each anchor has about 85 instead of 510 candidates. With fewer than 16, use
# :class:`~bayescl.samplers.DomainBatchSampler`, which draws batches of few domains.


def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return a convolution with what follows it."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def features(is_told: bool) -> torch.Tensor:
    """Train an encoder, with or without the domains, and return its features of all images."""
    torch.manual_seed(1)
    loss = bayescl.InfoNCELoss(temperature=0.25)
    encoder = nn.Sequential(
        *(block(1, 16, 1), block(16, 32, 2), block(32, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    network = nn.Sequential(encoder, head)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(steps):
        rows = torch.randperm(1258)[:256]
        told = domains[rows] if is_told else None
        value = loss(network(view(rows)), network(view(rows)), domains=told)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    encoder.eval()
    with torch.no_grad():
        return F.normalize(encoder(torch.maximum(images, marks[domains])), dim=1)


# %%
# Nearest neighbors
# -----------------
# The digit or mark of each test image is predicted by a vote of its 20 nearest training images.


def knn(rows: torch.Tensor, truth: torch.Tensor) -> float:
    """Return the share of test images whose neighbors vote for the truth."""
    nearest = (rows[test] @ rows[train].T).topk(20).indices
    votes = F.one_hot(truth[train][nearest], int(truth.max()) + 1).sum(dim=1)
    return float((votes.argmax(dim=1) == truth[test]).float().mean())


results = {"InfoNCE": features(is_told=False), "InfoNCE, domains=": features(is_told=True)}
figure, axes = plt.subplots(2, 2, figsize=(7, 7))
print("loss                digit    mark")
for pair, (name, rows) in zip(axes.T, results.items(), strict=True):
    by_digit, by_mark = knn(rows, labels), knn(rows, domains)
    print(f"{name:17} {by_digit:7.1%} {by_mark:7.1%}")
    places = TSNE(random_state=0, init="pca").fit_transform(rows[test].numpy())
    for axis, colors, share, what in (
        (pair[0], domains, by_mark, "mark"),
        (pair[1], labels, by_digit, "digit"),
    ):
        axis.scatter(*places.T, c=colors[test], cmap="tab10", s=6)
        axis.set(xticks=[], yticks=[], title=f"{name}: {what}s, k-NN {share:.0%}")
figure.tight_layout()
plt.show()

# %%
# The test images are colored by mark (top) and by digit (bottom). Without domains, each cluster has
# one mark and all digits. With domains, each cluster has one digit and all marks.

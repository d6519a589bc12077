"""
A teacher on digits
===================

This example trains a small encoder with and without a teacher. The teacher is the network itself,
applied without gradient to the unaugmented images. The results are for one seed. For a comparison
with several seeds, see :doc:`Evidence </evidence>`.
"""

# %%
# Data and views
# --------------
# A view is the image with a small random rotation, scale, shift and noise.

import math
import os

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import bayescl

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests: two steps are enough there
steps = 2 if smoke else 150

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
train, test = slice(0, 1258), slice(1258, None)


def view(batch: torch.Tensor) -> torch.Tensor:
    """Turn, scale, shift and disturb images."""
    count = len(batch)
    angle = math.radians(20) * (2 * torch.rand(count) - 1)
    scale = torch.empty(count).uniform_(0.8, 1.25)
    shift = torch.empty(count, 2).uniform_(-0.25, 0.25)
    first = torch.stack([scale * angle.cos(), -scale * angle.sin(), shift[:, 0]], dim=1)
    second = torch.stack([scale * angle.sin(), scale * angle.cos(), shift[:, 1]], dim=1)
    places = F.affine_grid(torch.stack([first, second], dim=1), (count, 1, 8, 8), False)
    return F.grid_sample(batch, places, align_corners=False) + 0.1 * torch.randn_like(batch)


# %%
# Training
# --------
# Only the loss and the teacher differ. The oracle gets all labels as ``groups``. The other runs use
# no labels.


def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return a convolution with what follows it."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def trained(loss: bayescl.ContrastiveLoss, has_teacher: bool) -> nn.Module:
    """Train an encoder with a projection head for some steps, and return the encoder."""
    torch.manual_seed(0)
    encoder = nn.Sequential(
        *(block(1, 32, 1), block(32, 64, 2), block(64, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    network = nn.Sequential(encoder, head)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = torch.randperm(1258)[:256]
        known = {"groups": labels[batch]} if loss.needs_groups else {}
        if has_teacher:
            with torch.no_grad():
                known["teacher"] = network(images[batch])  # unaugmented
        value = loss(network(view(images[batch])), network(view(images[batch])), **known)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return encoder.eval()


runs = {
    "InfoNCE": (bayescl.InfoNCELoss(temperature=0.25), False),
    "teacher, positive_share 0.5": (bayescl.InfoNCELoss(temperature=0.25), True),
    "teacher, positive_share 0.1": (
        bayescl.InfoNCELoss(temperature=0.25, positive_share=0.1),
        True,
    ),
    "oracle": (bayescl.OracleContrastiveLoss(temperature=0.25), False),
}

# %%
# One label per class
# -------------------
# One training image per digit has a label. Each test image is classified by the most similar of
# these ten images. Accuracies are means over 200 draws of the labeled images. The projection head
# is discarded after training.

draws = torch.Generator().manual_seed(0)
labeled = torch.stack(
    [
        (labels[train] == digit).nonzero()[:, 0][torch.randint(115, (200,), generator=draws)]
        for digit in range(10)
    ],
    dim=1,
)


def accuracy(rows: torch.Tensor) -> float:
    """Return the share of test images that find their digit."""
    rows = F.normalize(rows, dim=1)
    similarity = rows[test] @ rows[train].T
    guesses = similarity[:, labeled].argmax(dim=2)  # columns are digits
    return float((guesses == labels[test][:, None]).float().mean())


accuracies = {}
for name, (loss, has_teacher) in runs.items():
    encoder = trained(loss, has_teacher)
    with torch.no_grad():
        accuracies[name] = accuracy(encoder(images))
    print(f"{name:28} {accuracies[name]:6.1%}")

figure, axis = plt.subplots(figsize=(6, 3))
axis.barh(list(accuracies), list(accuracies.values()), color="#1f77b4")
axis.set(xlim=(0, 1), xlabel="accuracy with one label per class, one seed")
axis.invert_yaxis()
figure.tight_layout()
plt.show()

# %%
# The oracle uses labels to exclude false negatives. Without labels, the teacher reaches a part of
# its gain. Here, a small ``positive_share`` gains more, because all ten classes are frequent. If
# some classes are rare, use 0.5 (see :doc:`Teacher </teacher>`).

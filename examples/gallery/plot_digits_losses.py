"""
Digits with six losses
======================

One small encoder, the same views and the same steps, and six losses. This is a demonstration with
one seed and no tuning, so do not read an order of the losses from it. The measured comparison, with
tuned settings and four seeds, is on the front page.
"""

# %%
# Data and views
# --------------
# A view is the image shifted by up to one pixel in each direction, with noise.

import os

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import bayescl

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests: two steps are enough there
steps = 2 if smoke else 400

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
train, test = slice(0, 1400), slice(1400, None)


def view(batch: torch.Tensor) -> torch.Tensor:
    """Shift and disturb images."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return batch.roll((down, right), dims=(1, 2)) + 0.2 * torch.randn_like(batch)


# %%
# Training
# --------
# Only the loss differs. The oracle is given the labels as ``groups``; nobody else sees them.


def trained(loss: bayescl.ContrastiveLoss) -> nn.Module:
    """Train an encoder for some steps."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = torch.randint(1400, (256,))
        groups = labels[batch] if loss.needs_groups else None
        value = loss(encoder(view(images[batch])), encoder(view(images[batch])), groups=groups)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return encoder


losses = {
    "InfoNCE": bayescl.InfoNCELoss(),
    "debiased": bayescl.DebiasedContrastiveLoss(num_classes=10),
    "hard": bayescl.HardContrastiveLoss(num_classes=10),
    "Bayesian": bayescl.BayesianContrastiveLoss(num_classes=10, alpha=0.9),
    "latent classes": bayescl.LatentClassContrastiveLoss(num_classes=10),
    "oracle": bayescl.OracleContrastiveLoss(),
}

# %%
# One label per class
# -------------------
# One training image per digit has a label. Every test image takes the digit of the most similar of
# these ten. Accuracies are means over 200 draws of the labelled images.

draws = torch.Generator().manual_seed(0)
labelled = torch.stack(
    [
        (labels[train] == digit).nonzero()[:, 0][torch.randint(130, (200,), generator=draws)]
        for digit in range(10)
    ],
    dim=1,
)

accuracy = {}
for name, loss in losses.items():
    encoder = trained(loss)
    with torch.no_grad():
        embeddings = nn.functional.normalize(encoder(images), dim=1)
    similarity = embeddings[test] @ embeddings[train].T
    guesses = similarity[:, labelled].argmax(dim=2)  # columns are digits
    accuracy[name] = float((guesses == labels[test][:, None]).float().mean())
    print(f"{name:15} {accuracy[name]:.1%}")

figure, axis = plt.subplots(figsize=(6, 3))
axis.barh(list(accuracy), list(accuracy.values()), color="#1f77b4")
axis.set(xlim=(0, 1), xlabel="accuracy with one label per class, one seed")
axis.invert_yaxis()
figure.tight_layout()
plt.show()

# %%
# The latent-class loss reports how far it believes the classes that it found.

print(f"trust: {losses['latent classes'].trust:.2f}")

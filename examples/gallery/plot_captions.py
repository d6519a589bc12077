"""
Captions with duplicates
========================

In web data, captions repeat. Two images with the same caption are not negatives of each other. To
exclude them, pass one number per caption to the loss.
"""

# %%
# Images and captions
# -------------------
# Twelve captions for 256 drawn "images" (vectors around a center for each caption), so that most
# captions occur about twenty times.

import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import bayescl

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests
steps = 2 if smoke else 100

torch.manual_seed(0)
captions = [f"a photo of a {thing}" for thing in ["cat", "dog", "car", "tree", "house", "boat"]]
captions += [f"a drawing of a {thing}" for thing in ["cat", "dog", "car", "tree", "house", "boat"]]
groups = torch.randint(len(captions), (256,))  # the number of each image's caption
centers = torch.randn(len(captions), 32)
images = centers[groups] + 1.5 * torch.randn(256, 32)

words = sorted({word for caption in captions for word in caption.split()})
texts = torch.tensor([[float(word in text.split()) for word in words] for text in captions])[groups]

# %%
# Training in both directions
# ---------------------------
# As in CLIP, both images and captions are anchors, and the temperature is learned.


def trained(groups: torch.Tensor | None) -> list[float]:
    """Return the accuracy of finding an image's caption, after every step."""
    torch.manual_seed(1)
    image_encoder, text_encoder = nn.Linear(32, 16), nn.Linear(len(words), 16)
    loss = bayescl.InfoNCELoss(temperature=bayescl.LearnableTemperature(0.1))
    modules = nn.ModuleList([image_encoder, text_encoder, loss])
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.005)
    accuracy = []
    for _ in range(steps):
        batch = torch.randint(256, (64,))
        image_rows, text_rows = image_encoder(images[batch]), text_encoder(texts[batch])
        own = None if groups is None else groups[batch]
        value = loss.in_batch(image_rows, text_rows, groups=own, both_directions=True)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        with torch.no_grad():
            rows = nn.functional.normalize(image_encoder(images), dim=1)
            columns = nn.functional.normalize(text_encoder(texts), dim=1)
            nearest = all_groups[(rows @ columns.T).argmax(dim=1)]
            accuracy.append(float((nearest == all_groups).float().mean()))
    return accuracy


all_groups = groups
figure, axis = plt.subplots(figsize=(6, 3))
for name, given in {"duplicates repel": None, "duplicates left out": groups}.items():
    curve = trained(given)
    axis.plot(range(1, steps + 1), curve, label=name)
    print(f"{name:20} {curve[-1]:.1%}")
axis.set(xlabel="step", ylabel="images that find their caption")
axis.legend()
figure.tight_layout()
plt.show()

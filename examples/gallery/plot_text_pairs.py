"""
Pairs of text with duplicates
=============================

Questions and answers can repeat in a batch. A repeated text is a known false negative. With
``groups``, a candidate is excluded if one of its keys equals a key of the anchor.
"""

# %%
# Some questions and answers
# --------------------------
# Two questions have the same answer, and one question has two answers.

import os

import matplotlib.pyplot as plt
import torch
from torch import nn

import bayescl

smoke = "BAYESCL_SMOKE" in os.environ  # set by the tests
steps = 2 if smoke else 150

pairs = [
    ("how do I reset my password", "use the link on the login page"),
    ("I forgot my password", "use the link on the login page"),
    ("how do I close my account", "open settings and choose close account"),
    ("how do I close my account", "write to support"),
    ("where is my invoice", "invoices are listed under billing"),
    ("can I pay by card", "cards and bank transfer are accepted"),
    ("which cards do you accept", "cards and bank transfer are accepted"),
    ("is there a student discount", "students pay half"),
]

# %%
# Two keys per pair
# -----------------
# Equal texts get equal numbers. Column 0 is the question's key, column 1 the answer's.

questions, answers = zip(*pairs, strict=True)


def keys(texts: tuple[str, ...]) -> torch.Tensor:
    """Number texts; equal texts share their number."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return torch.tensor([numbers[text] for text in texts])


groups = torch.stack([keys(questions), keys(answers)], dim=1)
print(groups.T)

# %%
# A bag-of-words encoder
# ----------------------

words = sorted({word for text in questions + answers for word in text.split()})


def counts(texts: tuple[str, ...]) -> torch.Tensor:
    """Count words; one row per text."""
    return torch.tensor([[float(text.split().count(word)) for word in words] for text in texts])


def trained(groups: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the embeddings of questions and answers after training."""
    torch.manual_seed(0)
    encoder = nn.Linear(len(words), 16)
    loss = bayescl.InfoNCELoss(temperature=0.1)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
    for _ in range(steps):
        value = loss.in_batch(
            encoder(counts(questions)),
            encoder(counts(answers)),
            groups=groups,
            both_directions=True,
        )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    with torch.no_grad():
        embeddings = encoder(counts(questions)), encoder(counts(answers))
    return tuple(nn.functional.normalize(rows, dim=1) for rows in embeddings)


# %%
# With and without the keys
# -------------------------
# Without keys, two questions with the same answer push it away, because the copy of the answer in
# the other pair is a negative.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
for axis, (title, given) in zip(
    axes, {"duplicates repel": None, "duplicates left out": groups}.items(), strict=True
):
    question_rows, answer_rows = trained(given)
    similarity = question_rows @ answer_rows.T
    axis.imshow(similarity.numpy(), vmin=-1, vmax=1, cmap="RdBu_r")
    axis.set(title=title, xlabel="answer", ylabel="question")
    repeated = similarity.diagonal()[[0, 1, 2, 3, 5, 6]].mean()
    print(f"{title}: mean similarity of repeated texts to their answers {repeated:.3f}")
figure.tight_layout()
plt.show()

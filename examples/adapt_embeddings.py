"""Adapt frozen embeddings of another model to data from several batches.

pip install . ./lab && python examples/adapt_embeddings.py
"""

import tempfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import bayescl_lab
from bayescl_lab.cli import main as bayescl


def frozen_embeddings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace this by embeddings of your model, known labels, and the batch of each item."""
    random, digits = np.random.default_rng(0), load_digits()
    batch = random.integers(5, size=len(digits.target))  # an untrained network, five batches
    x = np.maximum(digits.data @ random.normal(size=(64, 256)) / 64, 0)
    x = x * random.uniform(0.7, 1.4, (5, 256))[batch] + random.normal(size=(5, 256))[batch]
    return x, digits.target, batch


def main(epochs: int = 30) -> None:
    """Train a small encoder on the embeddings. Compare k-NN with neighbors from other batches."""
    frozen, labels, batch = frozen_embeddings()
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/x.npz", x=frozen, labels=labels, domains=batch)
        command = f"train arrays --loss info_nce+domains+teacher --epochs {epochs}".split()
        bayescl([*command, "--data", f"{folder}/x.npz", "--out", f"{folder}/run"])
        adapted = bayescl_lab.load(f"{folder}/run").embed(frozen).numpy()
    probe, cv = KNeighborsClassifier(10, metric="cosine"), LeaveOneGroupOut()
    for name, x in (("frozen", frozen), ("adapted", adapted)):
        print(f"{name}: {cross_val_score(probe, x, labels, groups=batch, cv=cv).mean():.1%}")


if __name__ == "__main__":
    main()

"""Adapt frozen embeddings of another model to data from several batches.

pip install bayescl-lab && python examples/adapt_embeddings.py

Replace ``frozen_embeddings`` by the embeddings of your model: one row per item, the batch (plate,
scanner, site) of each item, and labels where they are known.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import bayescl_lab
from bayescl_lab.cli import main as bayescl


def frozen_embeddings() -> dict[str, np.ndarray]:
    """Embeddings of digits by a network that was not trained on them, measured in five batches."""
    random, digits = np.random.default_rng(0), load_digits()
    batch = random.integers(5, size=len(digits.target))
    x = np.maximum(digits.data @ random.normal(size=(64, 256)) / 64, 0)
    x = x * random.uniform(0.7, 1.4, (5, 256))[batch] + random.normal(size=(5, 256))[batch]
    return {"x": x, "domains": batch, "labels": digits.target}


def accuracy_on_new_batches(x: np.ndarray, labels: np.ndarray, batch: np.ndarray) -> float:
    """Accuracy of 10 nearest neighbors from other batches, over all batches."""
    probe, scores = KNeighborsClassifier(10, metric="cosine"), []
    for new in (batch == number for number in np.unique(batch)):
        scores.append(probe.fit(x[~new], labels[~new]).score(x[new], labels[new]))
    return float(np.mean(scores))


def main(epochs: int = 30) -> None:
    """Train a small encoder on the embeddings and compare."""
    data = frozen_embeddings()
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder, "embeddings.npz"), Path(folder, "run")
        np.savez(file, **data)
        options = f"--loss info_nce+domains+teacher --epochs {epochs} --out {run}".split()
        bayescl(["train", "arrays", "--data", str(file), *options])
        adapted = bayescl_lab.load(run).embed(data["x"]).numpy()
    for name, x in (("frozen", data["x"]), ("adapted", adapted)):
        print(f"{name}: {accuracy_on_new_batches(x, data['labels'], data['domains']):.1%}")


if __name__ == "__main__":
    main()

"""Adapt frozen embeddings of another model to data from several batches.

pip install . ./lab && python examples/adapt_embeddings.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import bayescl_lab
from bayescl_lab.cli import main as bayescl


def frozen_embeddings() -> dict[str, np.ndarray]:
    """Replace this by embeddings of your model, the batch of each item, and known labels."""
    random, digits = np.random.default_rng(0), load_digits()
    batch = random.integers(5, size=len(digits.target))  # an untrained network, five batches
    x = np.maximum(digits.data @ random.normal(size=(64, 256)) / 64, 0)
    x = x * random.uniform(0.7, 1.4, (5, 256))[batch] + random.normal(size=(5, 256))[batch]
    return {"x": x, "domains": batch, "labels": digits.target}


def main(epochs: int = 30) -> None:
    """Train a small encoder on the embeddings. Compare k-NN with neighbors from other batches."""
    data = frozen_embeddings()
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder, "embeddings.npz"), Path(folder, "run")
        np.savez(file, **data)
        options = f"--loss info_nce+domains+teacher --epochs {epochs} --out {run}".split()
        bayescl(["train", "arrays", "--data", str(file), *options])
        adapted = bayescl_lab.load(run).embed(data["x"]).numpy()
    probe, cv = KNeighborsClassifier(10, metric="cosine"), LeaveOneGroupOut()
    for name, x in (("frozen", data["x"]), ("adapted", adapted)):
        scores = cross_val_score(probe, x, data["labels"], groups=data["domains"], cv=cv)
        print(f"{name}: {scores.mean():.1%}")


if __name__ == "__main__":
    main()

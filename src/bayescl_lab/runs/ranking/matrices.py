"""The matrices of a finished recommender, in ``embeddings.npz``."""

from __future__ import annotations

import zipfile

import numpy as np
import torch

from bayescl_lab._files import open_atomically
from bayescl_lab.ranking.scorers import EmbeddingScorer
from bayescl_lab.runs.folder import RunFolder

FILE = "embeddings.npz"


def write_embeddings(folder: RunFolder, scorer: EmbeddingScorer, epochs: int) -> None:
    """Write the matrices of users and items; the product of two rows is a score.

    Args:
        folder: the run folder.
        scorer: the embeddings, already scaled as the score requires.
        epochs: number of epochs that the weights saw.
    """
    with open_atomically(folder.path / FILE) as file:
        np.savez(
            file,
            allow_pickle=False,
            users=scorer.users.cpu().numpy(),
            items=scorer.items.cpu().numpy(),
            epochs=np.array(epochs),
        )


def read_embeddings(folder: RunFolder) -> tuple[EmbeddingScorer, int] | None:
    """Read the scorer of a finished run and the epochs its weights saw; None if there is no file.

    Raises:
        ValueError: if the file is damaged.
    """
    path = folder.path / FILE
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            users, items = (torch.from_numpy(archive[name]) for name in ("users", "items"))
            epochs = int(archive["epochs"])
        return EmbeddingScorer(users, items, "inner"), epochs
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} is damaged") from None

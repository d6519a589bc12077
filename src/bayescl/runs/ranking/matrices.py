"""The matrices that a finished recommender ranks by, in ``embeddings.npz``."""

from __future__ import annotations

import zipfile

import numpy as np
import torch

from bayescl._files import open_atomically
from bayescl.recsys.scorers import EmbeddingScorer
from bayescl.runs.folder import RunFolder

FILE = "embeddings.npz"


def write_embeddings(folder: RunFolder, scorer: EmbeddingScorer, epochs: int) -> None:
    """Write what scores are made of: the product of a user's row and an item's row.

    Args:
        folder: of the run.
        scorer: the embeddings, already of the length that the score wants.
        epochs: how many epochs the weights saw.
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
    """The scorer of a finished run and the epochs its weights saw; None if there is none.

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

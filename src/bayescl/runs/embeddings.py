"""The embeddings of a run of any kind, as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from bayescl._checks import check_choice
from bayescl.runs.folder import RunFolder

RANKING, IMAGES = "train ranking", "train images"

PARTS = {RANKING: ("items", "users"), IMAGES: ("evaluation", "train")}
"""What a run of each kind has embeddings of; the first unless another is asked for."""


def run_embeddings(path: Path, of: str | None = None) -> pl.DataFrame:
    """Embed everything of one part of a run's data, with the weights that the run keeps.

    Args:
        path: the run folder.
        of: one of :data:`PARTS` for the run's kind.

    Returns:
        ``id``, for images with labels ``label``, and ``embedding``, one row each.

    Raises:
        ValueError: if the folder holds no run that embeds, no usable checkpoint yet, or ``of``
            is of another kind of run.
    """
    folder = RunFolder.find(path)
    if folder.kind not in PARTS:
        raise ValueError(f"{path} holds a run of '{folder.kind}', which has no embeddings")
    of = PARTS[folder.kind][0] if of is None else of
    check_choice("of", of, PARTS[folder.kind])
    if folder.kind == RANKING:
        from bayescl.runs.ranking.serving import load_recommender

        return load_recommender(path).embeddings(of)
    return _image_features(folder, of)


def _image_features(folder: RunFolder, of: str) -> pl.DataFrame:
    """Features of every image of a part."""
    from bayescl.runs.images.run import ImageRun
    from bayescl.vision.features import extract_features

    _, run, _ = ImageRun.kept(folder.path)
    store = run.parts.train if of == "train" else run.parts.evaluation
    if store is None:
        raise ValueError(f"the images of {folder.path} have no evaluation part: ask for train")
    features = extract_features(run.model.to(run.device), store).cpu().numpy()
    columns: dict[str, np.ndarray] = {"id": np.arange(len(features))}
    if store.labels is not None:
        columns["label"] = store.labels.cpu().numpy()
    return pl.DataFrame({**columns, "embedding": features})

"""The embeddings of a run of any kind, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bayescl.checks import check_choice
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.loading import IMAGES, RANKING

if TYPE_CHECKING:
    from torch import nn

PARTS = {RANKING: ("items", "users"), IMAGES: ("evaluation", "train")}
"""Parts with embeddings for each kind of run; default: the first."""


def run_embeddings(
    path: Path,
    of: str | None = None,
    *,
    data: str | None = None,
    encoder: nn.Module | None = None,
) -> pl.DataFrame:
    """Embed one part of a run's data with the run's weights.

    Args:
        path: the run folder.
        of: one of :data:`PARTS` for the run's kind.
        data: other images to embed; default: the run's own.
        encoder: the custom network of a run on images, if it has one.

    Returns:
        ``id`` and ``embedding``, one row each. For images, the id is the number within the part,
        ``image`` is the file in the folder or the number in the data set, and labelled images also
        have ``label`` and ``class``.

    Raises:
        ValueError: if the folder does not hold a run with embeddings or a usable checkpoint, or
            ``of`` is for another kind of run.
    """
    folder = RunFolder.find(path)
    if folder.kind not in PARTS:
        raise ValueError(f"{path} holds a run of '{folder.kind}', which has no embeddings")
    of = PARTS[folder.kind][0] if of is None else of
    check_choice("of", of, PARTS[folder.kind])
    if folder.kind == RANKING:
        if data is not None:
            raise ValueError("--data is for images: a recommender embeds what it was trained on")
        from bayescl_lab.runs.ranking.serving import load_recommender

        return load_recommender(path).embeddings(of)
    return _image_features(folder, of, data, encoder)


def _image_features(
    folder: RunFolder, of: str, data: str | None, encoder: nn.Module | None
) -> pl.DataFrame:
    """Features of every image of a part."""
    from bayescl_lab.images.probes import extract_features
    from bayescl_lab.runs.images.record import image_ids
    from bayescl_lab.runs.images.run import ImageRun

    _, run, _ = ImageRun.reopen(folder.path, data=data, encoder=encoder)
    store = run.parts.train if of == "train" else run.parts.evaluation
    if store is None:
        raise ValueError(f"the images of {folder.path} have no evaluation part: ask for train")
    features = extract_features(run.model.to(run.device), store).cpu().numpy()
    columns: dict[str, np.ndarray] = {"id": np.arange(len(features)), "image": image_ids(store)}
    labels = store.labels.cpu().numpy()
    columns["label"] = labels
    columns["class"] = np.array([*store.class_names, ""])[labels]
    return pl.DataFrame({**columns, "embedding": features})

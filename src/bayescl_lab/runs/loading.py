""":func:`bayescl_lab.load`: open a run's folder to embed or recommend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from bayescl_lab.runs.images.encoder import PreparedEncoder
    from bayescl_lab.runs.ranking.serving import Recommender


def load(path: str | Path, *, encoder: nn.Module | None = None) -> LoadedRun:
    """Load a run to embed images or to recommend items.

    The training data and a trainer are not needed.

    Args:
        path: the folder of a run of ``bayescl train images`` or ``bayescl train ranking``; if it is
            still training, the last checkpoint is used.
        encoder: the run's custom network, if it has one.

    Returns:
        The run; its methods depend on its kind.

    Raises:
        ValueError: if the folder does not hold a trained run.
    """
    path = Path(path)
    return LoadedRun(RunFolder(path, Kind.of(path)), encoder)


class LoadedRun:
    """A trained run, of the ``kind`` "train images" or "train ranking", in a ``folder``.

    Weights are loaded on first use. A method for another kind of run raises a ``ValueError``.
    """

    def __init__(self, folder: RunFolder, own_encoder: nn.Module | None = None) -> None:
        self.folder = folder
        self.kind = folder.kind
        self._own_encoder = own_encoder

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """All settings of the run by name, as in ``config.yaml``."""
        return self.folder.config()

    @property
    def result(self) -> Mapping[str, Any]:
        """The content of ``result.json``; a ``ValueError`` if the run is not finished."""
        if not self.folder.is_finished:
            raise ValueError(f"{self.folder.path} is not finished: it has no result yet")
        return self.folder.read_result()

    @property
    def encoder(self) -> nn.Module:
        """The network of a run on images, in ``eval()`` mode; it takes normalised images."""
        return self.prepared.encoder

    @cached_property
    def prepared(self) -> PreparedEncoder:
        """The network of a run on images behind its preparation, from uint8 to features."""
        self._require(Kind.IMAGES, "embeds images")
        from bayescl_lab.runs.images.encoder import load_encoder

        return load_encoder(self.folder, self._own_encoder)

    def embed(self, images: Tensor | NDArray[np.generic], *, batch_size: int = 256) -> Tensor:
        """Features of images, prepared as in training.

        Args:
            images: ``[images, channels, height, width]`` or, with one channel,
                ``[images, height, width]``; whole numbers from 0 to 255, or floating-point
                numbers from 0 to 1.
            batch_size: images per forward call.

        Returns:
            One feature per image, ``[images, features]``, float32.

        Raises:
            ValueError: if the images have the wrong shape or values, or the run is of another kind.
        """
        return self.prepared.embed(images, batch_size=batch_size)

    def recommend(self, user: int | str | None = None, k: int = 10, **options: Any) -> pl.DataFrame:
        """The best new items for a user; an unknown one is an error.

        See :meth:`bayescl_lab.runs.ranking.serving.Recommender.recommend` for ``items``,
        ``exclude``, ``allow_known`` and ``popular``; ``user`` is its ``user_id``.
        """
        return self.recommender.recommend(user, k, **options)

    def similar_items(self, item: int | str, k: int = 10) -> pl.DataFrame:
        """The items with the most similar embeddings; see :meth:`.Recommender.similar_items`."""
        return self.recommender.similar_items(item, k)

    @cached_property
    def recommender(self) -> Recommender:
        """The recommender itself, with further methods."""
        self._require(Kind.RANKING, "recommends")
        from bayescl_lab.runs.ranking.serving import load_recommender

        return load_recommender(self.folder.path)

    def _require(self, kind: Kind, does: str) -> None:
        """Refuse a method for another kind of run."""
        if self.kind != kind:
            raise ValueError(
                f"{self.folder.path} holds a run of '{self.kind}'; one of '{kind}' {does}"
            )

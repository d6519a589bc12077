"""What leaves a run: its embeddings as a table, its model for programs without this library."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from bayescl.checks import check_choice
from bayescl_lab._files import open_atomically, staged_folder, write_atomically
from bayescl_lab.runs.folder import RunFolder, as_json, check_vacant
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.record import write_arrays
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    from torch import nn


def run_embeddings(
    path: Path, of: str | None = None, *, data: str | None = None, encoder: nn.Module | None = None
) -> pl.DataFrame:
    """Embed one part of a run's data, one of :attr:`.Kind.parts`, with the run's weights.

    The table has ``id`` and ``embedding``. For images, the id is the number within the part,
    ``image`` is the file in the folder or the number in the data set, and there are ``label`` and
    ``class``, empty where they are unknown. ``encoder`` is the run's custom network.
    """
    kind = Kind.of(path)
    of = of or kind.parts[0]
    check_choice("of", of, kind.parts)
    if kind is Kind.RANKING:
        if data is not None:
            raise ValueError("--data is for images: a recommender embeds what it was trained on")
        return load_recommender(path).embeddings(of)

    from bayescl_lab.images.probes import extract_features
    from bayescl_lab.runs.images.record import image_ids
    from bayescl_lab.runs.images.run import ImageRun

    _, run, _ = ImageRun.reopen(path, data=data, encoder=encoder)
    store = run.part(of)
    features = extract_features(run.model.to(run.device), store).cpu().numpy()
    labels = store.labels.cpu().numpy()
    return pl.DataFrame(
        {
            "id": np.arange(len(features)),
            "image": image_ids(store),
            "label": labels,
            "class": np.array([*store.class_names, ""])[labels],
            "embedding": features,
        }
    )


def user_item_pairs(
    path: Path, pairs: int, seed: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], float | None]:
    """Embeddings of some of a recommender's users, and of an item that each has in training.

    Returns:
        The users' embeddings, the items', the items' numbers, and the loss's temperature, if any.
    """
    recommender = load_recommender(path)
    users, items = recommender.trained_on.pairs()
    order = np.random.default_rng(seed).permutation(len(users))
    drawn = order[np.unique(users[order], return_index=True)[1]]  # one pair of each user
    drawn = np.random.default_rng(seed).permutation(drawn)[:pairs]
    rows = {"users": users[drawn], "items": items[drawn]}
    of_users, of_items = (recommender.matrix(of)[number] for of, number in rows.items())
    return of_users, of_items, rows["items"], RunFolder.find(path).config().get("temperature")


def export_run(path: Path, to: Path, *, encoder: nn.Module | None = None) -> tuple[Path, ...]:
    """Export a run's model to a new folder, for programs with only torch or NumPy; gives the files.

    A run on images gives ``encoder.pt2``, made by ``torch.export``, which includes the preparation
    of images and maps any number of uint8 images to features; and ``encoder.safetensors``, the
    encoder's weights alone. A recommender gives ``recommender.npz`` with ids, matrices and every
    user's items. ``model.json`` describes the files. ``encoder`` is the run's custom network.
    """
    run = RunFolder(path, Kind.of(path))
    check_vacant(to)
    with staged_folder(to) as folder:
        if run.kind is Kind.IMAGES:
            written = _write_encoder(run, folder, encoder)
        else:
            written = _write_recommender(run, folder)
        card = {**written, "settings": run.config()}
        files = sorted(file.name for file in folder.iterdir())
        write_atomically(folder / "model.json", as_json(card))
    return tuple(to / name for name in (*files, "model.json"))


def _write_encoder(run: RunFolder, folder: Path, encoder: nn.Module | None) -> dict[str, Any]:
    """The network with its preparation as a program of torch; what its card says."""
    from bayescl_lab.runs.images.encoder import load_encoder
    from bayescl_lab.runs.images.record import ImageRecord
    from bayescl_lab.runs.weights import as_safetensors

    model = load_encoder(run, encoder)
    example = torch.zeros((2, *model.image_shape), dtype=torch.uint8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about its own parts
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
        with open_atomically(folder / "encoder.pt2") as file:
            torch.export.save(program, file)
        features = model(example).shape[1]
    write_atomically(folder / "encoder.safetensors", as_safetensors(model.encoder.state_dict()))
    return {
        "use": "torch.export.load('encoder.pt2').module()(images)",
        "images": {"dtype": "uint8", "shape": ["any number", *model.image_shape]},
        "features": features,
        "class_names": list(ImageRecord.read(run).class_names),
    }


def _write_recommender(run: RunFolder, folder: Path) -> dict[str, Any]:
    """Ids, matrices and known items; what their card says."""
    recommender = load_recommender(run.path)
    users, items = (recommender.embeddings(of) for of in ("users", "items"))
    known = recommender.record.known
    rows, columns = (np.flatnonzero(recommender.trained_rows(of)) for of in ("users", "items"))
    matrix = known.matrix[rows][:, columns]
    titles = {} if known.item_titles is None else {"item_titles": known.item_titles[columns]}
    arrays = {
        "user_ids": known.user_ids[rows],
        "item_ids": known.item_ids[columns],
        "users": users["embedding"].to_numpy(),
        "items": items["embedding"].to_numpy(),
        "known_starts": matrix.indptr,
        "known_items": matrix.indices,
    }
    write_arrays(folder / "recommender.npz", {**arrays, **titles})
    return {
        "use": "scores = users @ items.T; a user's known items are "
        "known_items[known_starts[row]:known_starts[row + 1]]",
        "users": len(rows),
        "items": len(columns),
        "left_out": "users and items without interactions in training, which have no embedding: "
        f"{known.num_users - len(rows)} users, {known.num_items - len(columns)} items",
    }

"""Export of a run to a form that works without this library."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayescl_lab._files import open_atomically, staged_folder, write_atomically
from bayescl_lab.runs.folder import as_json, check_vacant
from bayescl_lab.runs.loading import IMAGES, LoadedRun, load

PROGRAM, WEIGHTS, MATRICES, CARD = (
    "encoder.pt2",
    "encoder.safetensors",
    "recommender.npz",
    "model.json",
)


def export_run(path: Path, to: Path, *, encoder: nn.Module | None = None) -> tuple[Path, ...]:
    """Export a run's model to a folder, for programs with only torch or NumPy.

    A run on images gives ``encoder.pt2``, made by ``torch.export``, which includes the preparation
    of images and maps any number of uint8 images to features; and ``encoder.safetensors``, the
    encoder's weights alone. A recommender gives ``recommender.npz`` with ids, matrices and every
    user's items. ``model.json`` describes the files.

    Args:
        path: the run folder.
        to: a folder that does not exist yet, or is empty.
        encoder: the run's custom network, if it has one.

    Returns:
        The files.

    Raises:
        ValueError: if there is nothing to export, or ``to`` cannot hold it.
    """
    run = load(path, encoder=encoder)
    write = _write_encoder if run.kind == IMAGES else _write_recommender
    check_vacant(to)
    with staged_folder(to) as folder:
        names = write(run, folder)
    return tuple(to / name for name in names)


def _write_encoder(run: LoadedRun, folder: Path) -> tuple[str, ...]:
    """The network with its preparation as a program of torch, and its card."""
    from bayescl_lab.runs.images.record import ImageRecord
    from bayescl_lab.runs.weights import as_safetensors

    model = run.prepared
    example = torch.zeros((2, *model.image_shape), dtype=torch.uint8)
    class_names = ImageRecord.read(run.folder).class_names
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about its own parts
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
        with open_atomically(folder / PROGRAM) as file:
            torch.export.save(program, file)
        features = model(example).shape[1]
    write_atomically(folder / WEIGHTS, as_safetensors(model.encoder.state_dict()))
    card = {
        "use": f"torch.export.load('{PROGRAM}').module()(images)",
        "images": {"dtype": "uint8", "shape": ["any number", *model.image_shape]},
        "features": features,
        "class_names": list(class_names),
        "settings": dict(run.settings),
    }
    (folder / CARD).write_text(as_json(card), encoding="utf-8")
    return PROGRAM, WEIGHTS, CARD


def _write_recommender(run: LoadedRun, folder: Path) -> tuple[str, ...]:
    """Ids, matrices and known items, and their card."""
    recommender = run.recommender
    users, items = (recommender.embeddings(of) for of in ("users", "items"))
    known = recommender.known
    arrays = {
        "user_ids": known.user_ids,
        "item_ids": known.item_ids,
        "users": users["embedding"].to_numpy(),
        "items": items["embedding"].to_numpy(),
        "known_starts": known.matrix.indptr,
        "known_items": known.matrix.indices,
    }
    if known.item_titles is not None:
        arrays["item_titles"] = known.item_titles
    with open_atomically(folder / MATRICES) as file:
        np.savez(file, allow_pickle=False, **arrays)
    card = {
        "use": "scores = users @ items.T; a user's known items are "
        "known_items[known_starts[row]:known_starts[row + 1]]",
        "users": known.num_users,
        "items": known.num_items,
        "settings": dict(run.settings),
    }
    (folder / CARD).write_text(as_json(card), encoding="utf-8")
    return MATRICES, CARD

"""Export of runs: embeddings as a table, and models for use without this library."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch

from bayescl_lab._fields import check_choice
from bayescl_lab._files import staged_folder, write_atomically
from bayescl_lab._types import Config
from bayescl_lab.runs.folder import Kind, RunFolder, check_vacant, write_json
from bayescl_lab.runs.loading import encoder_run, load_encoder
from bayescl_lab.runs.ranking.serving import Recommender
from bayescl_lab.runs.record import write_arrays

if TYPE_CHECKING:
    from torch import nn

    from bayescl_lab.runs.encoder_run import EncoderRun


def run_embeddings(
    path: Path,
    of: str | None = None,
    *,
    output: str = "features",
    data: str | None = None,
    encoder: nn.Module | None = None,
) -> pl.DataFrame:
    """Embed a part of a run's data with the weights of the run.

    The table has columns ``id`` and ``embedding``. For images and arrays, ``id`` is the number of
    the row and ``image`` or ``item`` is the file in the folder, the id or the number in the data
    set. The table then also has ``part``, ``label`` (-1 if unknown), ``class`` and ``domain``
    (empty if unknown), and ``output``.

    Args:
        path: Run folder.
        of: "items" (default) or "users" of a recommender; "evaluation" (default), "train" or "all"
            of images and arrays, the training items first. Default for other data: "all".
        output: "features" of the encoder, or "head" for the embeddings of the projection head,
            which the loss compares. Both are computed without augmentation.
        data: Other images or arrays. Default: those of the run.
        encoder: Custom network of the run, if it has one.
    """
    kind = Kind.of(path)
    if kind is Kind.RANKING:
        of = of or "items"
        check_choice("of", of, ("items", "users"))
        if data is not None or output != "features":
            option = "data" if data is not None else "output"
            raise ValueError(f"--{option} is for encoders, not for recommenders")
        return Recommender(path).embeddings(of)

    of = of or ("evaluation" if data is None else "all")
    check_choice("of", of, ("evaluation", "train", "all"))
    _, run, _ = encoder_run(kind).reopen(path, data=data, encoder=encoder, split=of == "evaluation")
    both = ["train", "evaluation"] if run.parts.evaluation is not None else ["train"]
    names = both if of == "all" else [of]
    frame = pl.concat([_item_rows(run, name, output) for name in names])
    return frame.with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))


def _item_rows(run: EncoderRun[Any], part: str, output: str) -> pl.DataFrame:
    """Return the rows of a part's items."""
    from bayescl_lab.items.probes import extract_features
    from bayescl_lab.runs.item_record import item_ids

    store = run.part(part)
    model: Any = run.model.to(run.device)
    if output == "head":
        model = torch.nn.Sequential(model, model.projection_head)
    labels = store.labels.cpu().numpy()
    domains = np.full(len(store), -1) if store.domains is None else store.domains.cpu().numpy()
    return pl.DataFrame(
        {
            store.noun[:-1]: item_ids(store),
            "part": [part] * len(store),
            "label": labels,
            "class": np.array([*store.class_names, ""])[labels],
            "domain": np.array([*store.domain_names, ""])[domains],
            "output": [output] * len(store),
            "embedding": extract_features(model, store).cpu().numpy(),
        }
    )


def export_run(path: Path, to: Path, *, encoder: nn.Module | None = None) -> tuple[Path, ...]:
    """Export a run's model to a new folder for use with only torch or NumPy; return the files.

    An encoder is exported as ``encoder.pt2`` by ``torch.export``. It includes the preparation of
    images or arrays and maps any number of them to features. A recommender is exported as
    ``recommender.npz`` with ids, matrices and every user's items. ``model.json`` describes the
    files. ``encoder`` is the run's custom network.
    """
    run = RunFolder(path, Kind.of(path))
    check_vacant(to, "choose another folder")
    with staged_folder(to) as folder:
        if run.kind is Kind.RANKING:
            written = _write_recommender(run, folder)
        else:
            written = _write_encoder(run, folder, encoder)
        card = {**written, "settings": run.config()}
        files = sorted(file.name for file in folder.iterdir())
        write_json(folder / "model.json", card)
    return tuple(to / name for name in (*files, "model.json"))


def _write_encoder(run: RunFolder, folder: Path, encoder: nn.Module | None) -> Config:
    """Write the network with its preparation as a torch program; return its description."""
    from bayescl_lab.runs.item_record import ItemRecord

    model = load_encoder(run, encoder)
    noun = "images" if run.kind is Kind.IMAGES else "items"
    example = torch.zeros((2, *model.item_shape), dtype=model.input_dtype)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about its own parts
        batch = torch.export.Dim("batch", min=1)
        program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
        content = io.BytesIO()  # torch's writer ends the process if the disk is full
        torch.export.save(program, content)
        write_atomically(folder / "encoder.pt2", content.getvalue())
        features = model(example).shape[1]
    return {
        "use": f"torch.export.load('encoder.pt2').module()({noun})",
        noun: {"dtype": str(example.dtype)[6:], "shape": ["any number", *model.item_shape]},
        "features": features,
        "class_names": list(ItemRecord.read(run).class_names),
    }


def _write_recommender(run: RunFolder, folder: Path) -> Config:
    """Write ids, matrices and known items; return their description."""
    recommender = Recommender(run.path)
    users, items = (recommender.embeddings(of) for of in ("users", "items"))
    known = recommender.record.known
    rows, columns = (np.flatnonzero(recommender.trained_rows(of)) for of in ("users", "items"))
    matrix = known.matrix[rows][:, columns]
    arrays = {
        "user_ids": known.user_ids[rows],
        "item_ids": known.item_ids[columns],
        "users": users["embedding"].to_numpy(),
        "items": items["embedding"].to_numpy(),
        "known_starts": matrix.indptr,
        "known_items": matrix.indices,
    }
    write_arrays(folder / "recommender.npz", arrays)
    return {
        "use": "scores = users @ items.T; a user's known items are "
        "known_items[known_starts[row]:known_starts[row + 1]]",
        "users": len(rows),
        "items": len(columns),
        "left_out": "users and items without interactions in training, which have no embedding: "
        f"{known.num_users - len(rows)} users, {known.num_items - len(columns)} items",
    }

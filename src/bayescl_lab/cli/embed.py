"""``bayescl embed``."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab._files import open_atomically
from bayescl_lab.cli._console import say
from bayescl_lab.cli._files import ARRAYS, check_table_file, write_table
from bayescl_lab.cli._folders import named_encoder


def command(
    run: str,
    *,
    out: str,
    of: str | None = None,
    data: str | None = None,
    encoder: str | None = None,
) -> int:
    """Write the embeddings of a run's users, items or images to a file.

    An .npy file holds only the embeddings, in the order of the data. A .parquet file also holds
    ids: for images the number, the file in a folder, the label and the class name.

    Args:
        run: a run folder of "train ranking" or "train images".
        out: a file that ends in .npy or .parquet.
        of: "users" or "items" of a recommender (default: items); "train" or "evaluation" for images
            (default: evaluation).
        data: other images to embed; default: the run's, which must be unchanged.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """
    import numpy as np

    from bayescl_lab.runs.exporting import run_embeddings

    file = check_table_file(Path(out), ARRAYS)
    frame = run_embeddings(Path(run), of, data=data, encoder=named_encoder(encoder))
    if file.suffix == ".npy":
        array = frame["embedding"].to_numpy()
        with open_atomically(file) as opened:
            np.save(opened, array, allow_pickle=False)
    else:
        write_table(frame, file)
    rows, dim = frame["embedding"].to_numpy().shape
    say(f"{rows} embeddings of {dim} coordinates: {file}")
    return 0

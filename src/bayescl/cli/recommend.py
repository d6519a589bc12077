"""``bayescl recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayescl._fields import Count

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def command(
    run: str,
    *,
    user: str | None = None,
    k: Count = 10,
    all: bool = False,
    out: str | None = None,
) -> int:
    """Show the best items that a user does not have yet, or write everybody's list.

    Lists leave out what the user has in the training part.

    Args:
        run: the run folder of "train ranking"; the run may still be going on.
        user: the user's id, as the data set has it.
        k: length of a list.
        all: lists of all users, into the file named by --out.
        out: a file that ends in .csv or .parquet.
    """
    from bayescl.cli._files import check_table_file, write_table
    from bayescl.runs.ranking.serving import load_recommender

    if all == (user is not None):
        raise ValueError("give either --user ID or --all, with --out FILE")
    if all and out is None:
        raise ValueError("--all needs --out, a file that ends in .csv or .parquet")
    file = None if out is None else check_table_file(Path(out))
    lists = load_recommender(Path(run)).recommend(user, k)

    from bayescl.cli._console import console

    if file is None:
        console().print(_table(lists, f"for user {user}"))
        return 0
    write_table(lists, file)
    console().print(f"{lists['user'].n_unique()} lists: {file}", soft_wrap=True)
    return 0


def _table(lists: pl.DataFrame, title: str) -> Table:
    """One user's list."""
    from bayescl.cli._console import table

    names = [name for name in lists.columns if name != "user"]
    rows = [
        [f"{value:.4f}" if name == "score" else value for name, value in row.items()]
        for row in lists.select(names).rows(named=True)
    ]
    made = table(title, names, rows)
    for column, name in zip(made.columns, names, strict=True):
        column.justify = "left" if name in ("item", "title") else "right"
    return made

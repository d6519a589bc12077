"""``bayescl recommend``."""

from __future__ import annotations

from pathlib import Path


def command(
    run: str,
    *,
    user: str | None = None,
    k: int = 10,
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
    recommender = load_recommender(Path(run))
    lists = recommender.recommend(user, k)
    if file is not None:
        write_table(lists, file)
        from bayescl.cli._console import console

        console().print(f"{lists['user'].n_unique()} lists: {file}", soft_wrap=True)
        return 0
    _show(lists, f"for user {user}")
    return 0


def _show(lists: object, title: str) -> None:
    """Print one user's list."""
    import polars as pl
    from rich.markup import escape
    from rich.table import Table

    from bayescl.cli._console import console

    frame = pl.DataFrame(lists)
    names = [name for name in frame.columns if name != "user"]
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="left" if name in ("item", "title") else "right")
    for row in frame.select(names).rows(named=True):
        shown = {**row, "score": f"{row['score']:.4f}"}
        table.add_row(*(escape(str(shown[name])) for name in names))
    console().print(table)

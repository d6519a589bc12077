"""``bayescl recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayescl_lab._fields import Count, Words
from bayescl_lab.cli._console import console, printable, say, table
from bayescl_lab.cli._files import check_table_file, write_table


def command(
    run: str,
    *,
    user: str | None = None,
    items: Words = (),
    k: Annotated[Count, Parameter(name=("-k", "--k"))] = 10,
    all: bool = False,
    users: str | None = None,
    out: str | None = None,
    exclude: str | None = None,
    allow_known: bool = False,
) -> int:
    """Show the best new items for a user, or write lists for many users.

    Lists leave out the items that the user has in any part of the data. Users without items in the
    training part get the most popular ones. For somebody who is not in the data, use --items. The
    run's folder is enough; the data are not needed.

    Args:
        run: a run folder of "train ranking"; the run may still be training.
        user: the user's id in the data set.
        items: comma-separated ids of the items of somebody who is not in the data.
        k: length of a list.
        all: write lists for all users to the file given by --out.
        users: a text file with the ids of users, one per line, whose lists to write to --out.
        out: a file that ends in .csv or .parquet.
        exclude: a text file with the ids of further items to leave out, one per line.
        allow_known: include items that the user already has.
    """
    from bayescl_lab.runs.ranking.serving import load_recommender

    if sum((all, users is not None, user is not None, bool(items))) != 1:
        raise ValueError("give one of --user ID, --items A,B,..., --users FILE and --all")
    if (all or users is not None) and out is None:
        raise ValueError("--all and --users need --out, a file that ends in .csv or .parquet")
    file = None if out is None else check_table_file(Path(out))
    left_out = [] if exclude is None else _lines(Path(exclude), "excluded items")
    many = None if users is None else _lines(Path(users), "users")
    if many == []:
        raise ValueError(f"the file of users {users} is empty")
    recommender = load_recommender(Path(run))
    lists = recommender.recommend(
        many or user, k, items=items or None, exclude=left_out, allow_known=allow_known
    )

    whom = "somebody new" if items else f"user {printable(user)}"
    popular = recommender.popular_lists(many or user, items=items or None)
    if file is None:
        head = [name for name in lists.columns if name != "user"]
        rows = [[*row[:-1], f"{row[-1]:.4f}"] for row in lists.select(head).rows()]
        console().print(table(f"for {whom}", head, rows, words=len(head) - 1))
        if popular:
            what = "these items" if items else whom
            say(f"training saw nothing of {what}; these are the most popular items by users")
        return 0
    write_table(lists, file)
    count = lists["user"].n_unique() if all or many else 1
    remark = f" ({popular} of popular items, since training saw nothing of the user)"
    say(f"{count} lists{remark if popular else ''}: {file}")
    return 0


def _lines(file: Path, what: str) -> list[str]:
    """The non-empty lines of a text file; a ``ValueError`` if it cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"cannot read the file of {what} {file}") from None
    return [line.strip() for line in lines if line.strip()]

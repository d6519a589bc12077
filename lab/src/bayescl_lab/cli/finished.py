"""Commands on finished runs: embed, evaluate, export, recommend and report."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bayescl_lab._fields import Count, Words
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import console, print_result, say, table
from bayescl_lab.cli._options import check_output, named_encoder, write_table


def embed(
    run: Path,
    *,
    out: Path,
    of: str | None = None,
    output: Literal["features", "head"] = "features",
    data: str | None = None,
    encoder: str | None = None,
) -> None:
    """Write the embeddings of a run's items or users to a file.

    An .npy file contains only the embeddings, in the order of the data. A .parquet file also has
    ids. For images and arrays, it has row number, file or id, split, label, class name and domain.

    Args:
        run: Run folder of "train ranking", "train images" or "train arrays".
        out: Output file, ending in .npy or .parquet.
        of: Part to embed: "users" or "items" for recommenders (default: items); "train",
            "evaluation" or "all" for images and arrays (default: evaluation, or all with --data).
        output: Output to embed, for images and arrays: "features" of the encoder, or "head" for the
            output of the projection head, which the loss compares.
        data: Other images or arrays to embed. Default: the run's own data, which must be unchanged.
        encoder: Name of your own encoder, my_module:build, if the run has one.
    """
    import numpy as np

    from bayescl_lab.runs.exporting import run_embeddings

    check_output(out, ".npy", ".parquet")
    frame = run_embeddings(run, of, output=output, data=data, encoder=named_encoder(encoder))
    array = frame["embedding"].to_numpy()
    if out.suffix == ".npy":
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        write_atomically(out, content.getvalue())
    else:
        write_table(frame, out)
    kind = f" ({frame['output'][0]})" if "output" in frame else ""
    say(f"{len(array)} embeddings of {array.shape[1]} coordinates{kind}: {out}")


def evaluate(run: Path, *, data: str | None = None, encoder: str | None = None) -> None:
    """Evaluate a run: encoders by every probe, recommenders by full ranking.

    The run need not be finished. The last checkpoint is evaluated. The metrics are also written to
    evaluation.json in the run's folder. It is an error if images or arrays have changed since
    training.

    Args:
        run: Run folder.
        data: Other data to evaluate on. Interactions of the training split are excluded. Default:
            the data of the run.
        encoder: Name of your own encoder, my_module:build, if the run has one.
    """
    from bayescl_lab.runs.folder import Kind

    if Kind.of(run) is Kind.RANKING:
        from bayescl_lab.runs.ranking.ranking_run import RankingRun

        result = RankingRun.evaluate_in(run, data=data, baselines=True)
    else:
        from bayescl_lab.runs.loading import encoder_run

        custom = named_encoder(encoder)
        result = encoder_run(Kind.of(run)).evaluate_in(run, data=data, encoder=custom)
    epochs, of_epochs = result.row.epochs, result.settings.get("epochs")
    after = "" if epochs is None else f" after {epochs} of {of_epochs} epochs"
    print_result(f"{run}{after}, {result.part}{'' if data else ' split'}", result)
    if not result.measures:
        say("--data FILE evaluates on other interactions")


def export(run: Path, *, to: Path, encoder: str | None = None) -> None:
    """Export a run's model for use without this library.

    An encoder is exported as a torch program that maps images or arrays to features, a recommender
    as NumPy arrays. model.json in the same folder describes how to use them.

    Args:
        run: Run folder of "train ranking", "train images" or "train arrays".
        to: New folder.
        encoder: Name of your own encoder, my_module:build, if the run has one.
    """
    from bayescl_lab.runs.exporting import export_run

    say(*export_run(run, to, encoder=named_encoder(encoder)))


def recommend(
    run: Path,
    *,
    user: str | None = None,
    k: Annotated[Count, Parameter(name=("-k", "--k"))] = 10,
    all: bool = False,
    out: Path | None = None,
    allow_known: bool = False,
) -> None:
    """Show the best new items for a user, or write lists for all users.

    Lists exclude all items that the user has in the data. Users without items in the training split
    get the most popular items, with "popularity" in the column source. Only the run's folder is
    needed, not the data.

    Args:
        run: Run folder of "train ranking". The run may still be training.
        user: Id of the user in the data set.
        k: Number of items per list.
        all: Write lists for all users to --out.
        out: Output file, ending in .csv or .parquet. In .csv files, ids that a spreadsheet would
            run as formulas get a leading apostrophe.
        allow_known: Include items that the user already has.
    """
    from bayescl_lab.ranking.interactions import in_words
    from bayescl_lab.runs.ranking.serving import Recommender

    if (user is not None) == all:
        raise ValueError("pass either --user ID or --all")
    if all and out is None:
        raise ValueError("--all needs --out, a file that ends in .csv or .parquet")
    if out is not None:
        check_output(out, ".csv", ".parquet")
    recommender = Recommender(run)
    lists = recommender.recommend(user, k, all_users=all, allow_known=allow_known)
    if out is not None:
        write_table(lists, out)
    elif len(lists) > 0:
        shown = lists.drop("user", "source")
        rows = [[*row[:-1], f"{row[-1]:.4f}"] for row in shown.rows()]
        console().print(
            table(f"for user {user}", shown.columns, rows, words=len(shown.columns) - 1)
        )
    made, by_popularity = (
        some["user"].n_unique() for some in (lists, lists.filter(source="popularity"))
    )
    wanted = recommender.record.known.num_users if all else 1
    counts = {
        f"lists written to {out}": made if out is not None else 0,
        "lists of popular items, for lack of interactions in training": by_popularity,
        "users with every item: nothing is left to recommend (see --allow-known)": wanted - made,
    }
    say(*in_words({phrase: count for phrase, count in counts.items() if count}))


def report(names: Words = (), *, out: Path | None = None) -> None:
    """Make an HTML page of runs and comparisons.

    The page has settings, tables, figures and provenance. It is a single,
    self-contained file.

    Args:
        names: Folders of runs or comparisons.
        out: HTML file. Default: report.html in the folder, or in the current folder if several
            folders are given.
    """
    paths = [Path(name) for name in names]
    if not paths:
        raise ValueError("give at least one run folder")
    from bayescl_lab.report.html import report_page

    file = out or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    text = report_page(paths)
    write_atomically(check_output(file, ".html"), text)
    say(f"report: {file}")

"""``bayescl inspect``: inspection of a file of embeddings, or of a run on images or arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic.dataclasses import dataclass

from bayescl_lab._arrays import unknown_words_of
from bayescl_lab._fields import at_least
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import say, show
from bayescl_lab.cli._options import FLAT, check_output, named_encoder, write_table
from bayescl_lab.runs.folder import write_json


@dataclass(frozen=True)
class OfFile:
    """Options for the inspection of a file of embeddings.

    Attributes:
        labels: Name of the array of labels, numbers or strings. Default: "labels", if there is such
            an array.
        ids: Name of the array of row ids, such as ids of documents. Rows with the same id
            are not candidates of each other. Default: "ids", if there is such an array.
        by: Name of the array with a possible nuisance, such as the experimental batch, speaker or
            device of each item. Default: "domains", if there is such an array.
        unknown: Comma-separated strings that mean an unknown label, id or nuisance. Default: -1,
            nan, NA, None, null and similar. Empty values are always unknown.
        batch_size: Number of items in a batch. Default: 256.
        documents: File with the embeddings of the documents, if the first file holds queries.
        teacher: File with embeddings of the same items by another model, which orders the suspects.
    """

    labels: str | None = None
    ids: str | None = None
    by: str | None = None
    unknown: str | None = None
    batch_size: Annotated[int, at_least(2)] | None = None
    documents: Path | None = None
    teacher: Path | None = None


def inspect(
    run_or_file: Path,
    *,
    of_file: Annotated[OfFile, FLAT] = OfFile(),
    data: str | None = None,
    encoder: str | None = None,
    out: Path | None = None,
    suspects: Path | None = None,
) -> None:
    """Measure false negatives and nuisances in embeddings, and recommend a loss.

    A file of embeddings is .npy, .npz or .parquet, with one row per item. It may also hold a second
    view ("second_view"), or "queries" and "documents" instead, and "labels", "ids" and "domains".
    For a run, images or arrays are embedded without augmentation, after the projection head.

    Args:
        run_or_file: Run folder of an encoder, or file of embeddings.
        data: Images or arrays to inspect. Default: those of the run's training, which must be
            unchanged.
        encoder: Name of your own encoder, my_module:build, if the run has one.
        out: HTML page. Default: inspection.html in the run folder, or NAME-inspection.html beside
            the file. A .json file with the results is written beside the page.
        suspects: CSV file for suspected false negatives, most suspicious first, with ids and texts
            if there are any. The first ten are printed. For a run on images, a picture is written
            beside it.
    """
    from bayescl_lab.inspect.files import is_embedding_file, read_embeddings

    is_file = is_embedding_file(run_or_file)
    others = {"data": data, "encoder": encoder} if is_file else vars(of_file)
    for name, value in others.items():
        if value is not None:
            what = "run folders" if is_file else "files of embeddings"
            option = name.replace("_", "-")
            raise ValueError(f"--{option} applies only to {what}, got {run_or_file}")
    beside = run_or_file.with_name(f"{run_or_file.stem}-inspection.html")
    page = out or (beside if is_file else run_or_file / "inspection.html")
    if is_file or out is not None:
        check_output(page, ".html")
    if suspects is not None:
        check_output(suspects, ".csv", option="suspects")
    elif of_file.teacher is not None:
        raise ValueError("--teacher needs --suspects")
    from bayescl_lab._figures import png
    from bayescl_lab.inspect.findings import advise
    from bayescl_lab.inspect.measures import diagnose_embeddings
    from bayescl_lab.inspect.page import embeddings_page, measures_table, sentences, suspects_figure
    from bayescl_lab.inspect.suspects import find_suspects, suspects_table

    if is_file:
        named = {"labels": of_file.labels, "groups": of_file.ids, "domains": of_file.by}
        words = unknown_words_of(of_file.unknown)
        arrays = read_embeddings(run_or_file, unknown=words, **named)
        if of_file.documents is not None:
            other = read_embeddings(of_file.documents)
            arrays = arrays._replace(
                second_view=other.embeddings, second_texts=other.texts, are_pairs=True
            )
        batch_size = of_file.batch_size or 256
    else:
        from bayescl_lab.inspect.runs import run_arrays

        arrays, batch_size = run_arrays(run_or_file, data=data, encoder=named_encoder(encoder))
    diagnosis = diagnose_embeddings(
        arrays.embeddings,
        arrays.second_view,
        labels=arrays.labels,
        groups=arrays.groups,
        domains=arrays.domains,
        are_pairs=arrays.are_pairs,
        batch_size=batch_size,
    )
    if suspects is not None:
        teacher = None if of_file.teacher is None else read_embeddings(of_file.teacher)
        found = find_suspects(arrays, teacher=teacher)
        frame = found.frame(arrays)
    advice = advise(diagnosis, arrays)
    figures = page.with_suffix(".json")
    write_atomically(page, embeddings_page(advice, run_or_file.name, arrays.measured))
    report = {**diagnosis.figures(), "advice": advice.figures(), "measured": arrays.measured}
    write_json(figures, report)
    show(f"Measured on {arrays.measured}", measures_table(advice))
    if suspects is not None:
        write_table(frame, suspects)
        show("The ten most suspicious negatives", suspects_table(frame.head(10)))
        say(f"suspects: {suspects} ({len(frame):,} lines)")
        if arrays.pictures is not None:
            picture = suspects.with_suffix(".png")
            write_atomically(picture, png(suspects_figure(found, arrays.pictures)))
            say(f"picture: {picture}")
    say(f"page: {page}", f"numbers: {figures}", *sentences(advice))

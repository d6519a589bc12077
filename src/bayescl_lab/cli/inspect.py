"""``bayescl inspect``: inspection of a file of embeddings, or of a run on images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import CountOr0, Positive, at_least
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import say, show
from bayescl_lab.cli._options import FLAT, check_output, named_encoder
from bayescl_lab.inspect.files import is_embedding_file, read_embeddings
from bayescl_lab.runs.folder import write_json


@dataclass(frozen=True)
class OfFile:
    """Options for the inspection of a file of embeddings.

    Attributes:
        queries: Name of the array of queries in the file. Default: embeddings, or another common
            name.
        documents: Name of the array with the document of each query. Default: second_view, or
            another common name.
        second_view: File with another view of the same items, in the same order. Default: the array
            second_view in the file of embeddings, if there is one.
        labels: File with the label of each item, or the name of an array in the file of embeddings.
            Labels are numbers or words; -1 and empty words are unknown. Default: the array labels,
            if there is one.
        ids: File or array with an id for each row, such as a document. Rows with the same id are
            not candidates of each other. Default: the array ids, if there is one.
        by: File or array with a possible nuisance, such as the batch, speaker or device of each
            item. Default: the array domains, if there is one.
        temperature: Temperature that the encoder was trained with. Default: 0.5, and the advice
            does not give a temperature.
        layout: "two_views" of items, or "in_batch" for pairs such as queries and documents.
            Default: "in_batch" if the file has arrays of queries and documents, else "two_views".
        batch_size: Number of items in a batch. Default: 256.
    """

    queries: str | None = None
    documents: str | None = None
    second_view: Path | None = None
    labels: str | None = None
    ids: str | None = None
    by: str | None = None
    temperature: Positive | None = None
    layout: Literal["two_views", "in_batch"] | None = None
    batch_size: Annotated[int, at_least(2)] | None = None


def inspect(
    run_or_file: Path,
    *,
    of_file: Annotated[OfFile, FLAT] = OfFile(),
    tau_plus: FiniteFloat | None = None,
    items: Annotated[int, at_least(2)] = 1024,
    data: str | None = None,
    encoder: str | None = None,
    out: Path | None = None,
    seed: CountOr0 = 0,
) -> None:
    """Measure false negatives and nuisances in embeddings, and recommend a loss.

    Labels, a second view and a possible nuisance (--by) are optional.

    A file of embeddings is .npy, .npz or .parquet, with one row per item. For a run on images, two
    views of each image are embedded.

    Args:
        run_or_file: Run folder of "train images", or file of embeddings.
        tau_plus: Share of candidates of the anchor's class: for C equal classes, 1/C. Not needed
            with labels.
        items: Largest number of items to embed and score.
        data: Images to inspect. Default: the training images of the run, which must be unchanged.
        encoder: Name of your own encoder, my_module:build, if the run has one.
        out: HTML page. Default: inspection.html in the run folder, or NAME-inspection.html beside
            the file. A .json file with the results is written beside the page.
        seed: Seed for drawing items, and for the views of images.
    """
    is_file = is_embedding_file(run_or_file)
    others = {"data": data, "encoder": encoder} if is_file else vars(of_file)
    for name, value in others.items():
        if value is not None:
            what = "run folders" if is_file else "files of embeddings"
            raise ValueError(f"{name} is only for {what}, got {run_or_file}")
    beside = run_or_file.with_name(f"{run_or_file.stem}-inspection.html")
    page = out or (beside if is_file else run_or_file / "inspection.html")
    if is_file or out is not None:
        check_output(page, ".html")
    from bayescl_lab.inspect.findings import advise
    from bayescl_lab.inspect.measures import diagnose_embeddings, plain
    from bayescl_lab.inspect.page import (
        embeddings_page,
        losses_table,
        measures_table,
        sentences,
    )

    options = {name: value for name, value in vars(of_file).items() if value is not None}
    if is_file:
        names = ("queries", "documents", "second_view", "labels", "ids", "by")
        named = {name: options.pop(name) for name in names if name in options}
        arrays = read_embeddings(run_or_file, **named)
        options = {"layout": "in_batch" if arrays.are_pairs else "two_views", **options}
    else:
        from bayescl_lab.inspect.images import image_arrays

        network = named_encoder(encoder)
        arrays, options = image_arrays(
            run_or_file, images=items, seed=seed, data=data, encoder=network
        )
    options |= {"tau_plus": tau_plus, "items": items, "seed": seed}
    views = arrays.embeddings, arrays.second_view
    codes: Any = {"labels": arrays.labels, "groups": arrays.ids, "domains": arrays.domains}
    diagnosis = diagnose_embeddings(views[0], views[1], **codes, **options)
    advice = advise(diagnosis, *views, ids=arrays.ids)
    figures = page.with_suffix(".json")
    write_atomically(page, embeddings_page(advice, run_or_file.name, arrays.measured))
    report = {**plain(diagnosis), "advice": advice.figures(), "measured": arrays.measured}
    write_json(figures, report)
    show(f"Measured on {arrays.measured}", measures_table(advice))
    losses = losses_table(diagnosis)
    show(losses.title.strip("*"), losses)
    say(f"page: {page}", f"figures: {figures}", *sentences(advice))

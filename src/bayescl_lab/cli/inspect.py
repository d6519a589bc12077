"""``bayescl inspect``: a file of embeddings, or those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, CountOr0, Positive, at_least
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import say, show
from bayescl_lab.cli._options import FLAT, check_output, named_encoder
from bayescl_lab.inspect.files import EmbeddingArrays, is_embedding_file, read_embeddings
from bayescl_lab.runs.folder import as_json


@dataclass(frozen=True)
class OfRun:
    """What to inspect in a run.

    Attributes:
        part: "train" for the training images, or "evaluation" for the evaluation images.
        anchors: number of images to show with their candidates.
        shown: number of candidates to show for each, at each end.
        data: other images to inspect; default: the run's, which must be unchanged.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """

    part: Literal["train", "evaluation"] = "train"
    anchors: Count = 6
    shown: Count = 6
    data: str | None = None
    encoder: str | None = None


@dataclass(frozen=True)
class OfFile:
    """What to inspect in a file of embeddings, and how.

    Attributes:
        queries: name of the array of queries in the file; default: embeddings, or another usual
            name.
        documents: name of the array with the document of each query; default: second_view, or
            another usual name.
        second_view: a file with another view of the same items, in the same order; default: the
            array second_view in the file of embeddings, if there is one.
        labels: a file with labels, numbers or words, -1 or nothing where unknown, or the name of an
            array in the file of embeddings; default: its array labels, if there is one.
        ids: likewise, what each row is of, such as a document: rows of one id are never each
            other's candidates; default: the array ids.
        domains: likewise, the batch, speaker or device of each item; default: the array domains.
        temperature: softmax scale that the encoder was trained with; default: 0.5, and advice
            without a temperature.
        layout: "two_views" of items, or "in_batch" for pairs such as queries and documents, the
            default if arrays are called so.
        batch_size: items in a batch.
    """

    queries: str | None = None
    documents: str | None = None
    second_view: Path | None = None
    labels: str | None = None
    ids: str | None = None
    domains: str | None = None
    temperature: Positive | None = None
    layout: Literal["two_views", "in_batch"] | None = None
    batch_size: Annotated[int, at_least(2)] = 256


def inspect(
    run_or_file: Path,
    *,
    of_run: Annotated[OfRun, FLAT] = OfRun(),
    of_file: Annotated[OfFile, FLAT] = OfFile(),
    num_classes: Annotated[int, at_least(2)] | None = None,
    tau_plus: FiniteFloat | None = None,
    items: Annotated[int, at_least(2)] = 1024,
    out: Path | None = None,
    seed: CountOr0 = 0,
) -> None:
    """Say how many false negatives there are, and which loss would find them.

    An HTML page says how many false negatives a batch holds, how well they can be told apart, how
    each loss would weight them, and which loss to use. Labels and a second view are optional.

    A file of embeddings is .npy, .npz, .parquet or .safetensors, one row per item, from anywhere.
    Of a run on images, two views of each image are embedded; pictures of the weights that its own
    loss gives to candidates are also written to its folder. Of a recommender, users are paired with
    items that they have.

    Args:
        run_or_file: a run folder, or a file of embeddings.
        num_classes: approximate number of classes; not needed with labels.
        tau_plus: share of candidates of the anchor's class; default: counted from labels, else from
            num_classes, else 0.1.
        items: largest number of items to score; of a run, to embed.
        out: the HTML page; default: inspection.html in the run folder, or a new page beside the
            file. A .json file with the figures is written beside it.
        seed: seed for drawing items, and for the views of images.
    """
    is_file = is_embedding_file(run_or_file)
    others = of_run if is_file else of_file
    why = f"a run folder, but {run_or_file} is a file"
    if not is_file:
        why = f"a file of embeddings, but {run_or_file} is a folder"
    for option in fields(others):
        if getattr(others, option.name) != option.default:
            raise ValueError(f"--{option.name.replace('_', '-')} is for {why}")
    page = out or (_new_page(run_or_file) if is_file else run_or_file / "inspection.html")
    if is_file or out is not None:
        check_output(page, ".html")
    source = (
        _of_file(run_or_file, of_file) if is_file else _of_run(run_or_file, of_run, items, seed)
    )

    from bayescl_lab.inspect.findings import advise
    from bayescl_lab.inspect.measures import diagnose_embeddings
    from bayescl_lab.inspect.page import (
        advice_sentences,
        batch_table,
        embeddings_page,
        losses_table,
        sentences,
    )

    arrays, remarks = _without_rare_codes(source.arrays)
    views = arrays.embeddings, arrays.second_view
    codes: Any = {"labels": arrays.labels, "groups": arrays.ids, "domains": arrays.domains}
    options: Any = {"layout": "in_batch" if arrays.are_pairs else "two_views", **source.options}
    options |= {"num_classes": num_classes, "tau_plus": tau_plus, "items": items, "seed": seed}
    diagnosis = diagnose_embeddings(views[0], views[1], **codes, **options)
    advice = advise(diagnosis, *views, ids=arrays.ids, followed=source.followed)
    about: Any = {"name": run_or_file.name, "measured": source.measured, "others": source.others}
    write_atomically(page, embeddings_page(diagnosis, advice, **about))
    figures = page.with_suffix(".json")
    report = {**diagnosis.figures(), "advice": advice.figures(), **source.report}
    report |= {"measured": source.measured, "others": dict(source.others)}
    write_atomically(figures, as_json(report))
    if arrays.unused:
        say(f"not used: {arrays.unused}")
    say(*remarks, f"measured on {source.measured}")
    for shown in (batch_table(diagnosis, source.others), losses_table(diagnosis)):
        show(shown.title.strip("*"), shown)
    say(*sentences(diagnosis), *advice_sentences(advice), page, figures, *source.files)


class _Source(NamedTuple):
    """Embeddings to inspect, options of their diagnosis, and what else the report and files say."""

    arrays: EmbeddingArrays
    options: dict[str, Any]
    measured: str
    report: Mapping[str, Any] = MappingProxyType({})
    files: tuple[Path, ...] = ()
    followed: tuple[str, ...] = ()
    others: Mapping[str, tuple[float, float]] = MappingProxyType({})


def _without_rare_codes(arrays: EmbeddingArrays) -> tuple[EmbeddingArrays, list[str]]:
    """Embeddings without labels or domains that too few items have, and a remark on each."""
    from bayescl_lab.inspect.images import can_compare

    remarks = []
    if arrays.labels is not None and (known := int((arrays.labels >= 0).sum())) < 2:
        remarks.append(f"labels are not used: {known} of {len(arrays.labels)} items have one")
        arrays = arrays._replace(labels=None)
    if arrays.domains is not None and not can_compare(arrays.domains):
        remarks.append("domains are not used: more than 10 items must have one, of two kinds")
        arrays = arrays._replace(domains=None)
    return arrays, remarks


def _of_file(path: Path, given: OfFile) -> _Source:
    """What a file holds."""
    options = {name: value for name, value in vars(given).items() if value is not None}
    names = ("queries", "documents", "second_view", "labels", "ids", "domains")
    named: Any = {name: options.pop(name) for name in names if name in options}
    arrays = read_embeddings(path, **named)
    output = f"{arrays.output} of plain images" if arrays.output else "the embeddings of the file"
    return _Source(arrays, options, output)


def _of_run(path: Path, given: OfRun, items: int, seed: int) -> _Source:
    """What a run's model makes of its images, or of users with an item each."""
    from bayescl_lab.runs.run import Kind

    if Kind.of(path) is Kind.RANKING:
        from bayescl_lab.runs.exporting import user_item_pairs

        if given.data is not None:
            raise ValueError("--data is for images: a recommender has what it was trained on")
        users, rows, ids, temperature = user_item_pairs(path, items, seed)
        arrays = EmbeddingArrays(users, rows, None, ids, None, are_pairs=True, unused="")
        measured = "users, each with an item of theirs"
        # A run without a temperature has no option for one.
        followed = () if temperature is not None else ("temperature",)
        return _Source(arrays, {"temperature": temperature}, measured, followed=followed)

    from bayescl_lab.inspect.images import inspect_images

    options = {**vars(given), "encoder": named_encoder(given.encoder)}
    found = inspect_images(path, images=items, seed=seed, **options)
    first, second = (view.cpu().numpy() for view in found.views)
    labels, domains = (
        None if codes is None else codes.cpu().numpy() for codes in (found.labels, found.domains)
    )
    arrays = EmbeddingArrays(first, second, labels, None, domains, are_pairs=False, unused="")
    measured = "head of two augmented views of each image, as the loss sees them"
    report = {"run": found.report}
    return _Source(
        arrays, found.options, measured, report, found.files, found.followed, found.others
    )


def _new_page(path: Path) -> Path:
    """A page beside a file that takes the place of no other one."""
    page, number = path.with_name(f"{path.stem}-inspection.html"), 1
    while page.exists():
        number += 1
        page = path.with_name(f"{path.stem}-inspection-{number}.html")
    return page

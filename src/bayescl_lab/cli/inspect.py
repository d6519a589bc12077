"""``bayescl inspect``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, CountOr0, Numbers, Positive, at_least
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._options import FLAT

if TYPE_CHECKING:
    from rich.table import Table

    from bayescl.diagnostics import Diagnosis


@dataclass(frozen=True)
class OfRun:
    """What to inspect in a run.

    Attributes:
        part: "train" for the training images, or "evaluation" for the evaluation images.
        images: largest number of images to score, in batches of the training size.
        anchors: number of images or users to show with their candidates.
        shown: number of candidates to show for each, at each end.
        anchor_images: comma-separated numbers of the images to show; default: random ones.
        users: number of a recommender's users to inspect; default: enough for some million pairs.
        data: other data to inspect; default: the run's, which must be unchanged.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """

    part: Literal["train", "evaluation"] = "train"
    images: Annotated[int, at_least(2)] = 1024
    anchors: Count = 6
    shown: Count = 6
    anchor_images: Numbers = ()
    users: Count | None = None
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
        labels: a file with labels, numbers or words, -1 or nothing where unknown; default: the
            array labels in the file of embeddings, if there is one.
        num_classes: approximate number of classes; not needed with labels.
        tau_plus: share of candidates of the anchor's class; default: counted from labels, else from
            num_classes, else 0.1.
        temperature: softmax scale of every loss.
        layout: "two_views" of items, or "in_batch" for pairs such as queries and documents, the
            default if arrays are called so.
        batch_size: items in a batch.
        items: largest number of items to score.
        out: the HTML page; default: a new one beside the file of embeddings. A .json file with the
            figures is written beside it.
    """

    queries: str | None = None
    documents: str | None = None
    second_view: str | None = None
    labels: str | None = None
    num_classes: Annotated[int, at_least(2)] | None = None
    tau_plus: FiniteFloat | None = None
    temperature: Positive = 0.5
    layout: Literal["two_views", "in_batch"] | None = None
    batch_size: Annotated[int, at_least(2)] = 256
    items: Annotated[int, at_least(2)] = 1024
    out: str | None = None


def command(
    run_or_file: str,
    *,
    of_run: Annotated[OfRun, FLAT] = OfRun(),
    of_file: Annotated[OfFile, FLAT] = OfFile(),
    seed: CountOr0 = 0,
) -> int:
    """Show how many false negatives there are, and how a loss weights its candidates.

    For a run, figures are also written to its folder: inspection.json, and pictures of the
    posterior's calibration, the weights, the candidates with the smallest and largest weights and,
    for the latent loss, its components. Figures that need labels are left out if there are none.
    For a recommender, held-out items serve as false negatives.

    A file of embeddings works without a run: .npy, .npz, .parquet or .safetensors, one row per
    item. An HTML page says how many false negatives a batch holds, how well they can be told apart,
    how each loss would weight them, and which loss to use. Labels and a second view are optional.

    Args:
        run_or_file: a run folder, or a file of embeddings.
        of_run: what to inspect in a run.
        of_file: what to inspect in a file.
        seed: seed for drawing images, users or items, and for the images' views.
    """
    from bayescl_lab.cli._embeddings import is_embedding_file

    path = Path(run_or_file)
    if is_embedding_file(path):
        _refuse(of_run, OfRun(), f"a run folder, but {path} is a file")
        return _inspect_file(path, of_file, seed)
    _refuse(of_file, OfFile(), f"a file of embeddings, but {path} is a folder")
    return _inspect_run(path, of_run, seed)


def _refuse(given: OfRun | OfFile, defaults: OfRun | OfFile, why: str) -> None:
    """Refuse options that belong to the other kind of input."""
    for one in fields(given):
        if getattr(given, one.name) != getattr(defaults, one.name):
            option = one.name.replace("_", "-")
            raise ValueError(f"--{option} is for {why}")


def _inspect_run(path: Path, looked_at: OfRun, seed: int) -> int:
    """Figures of a run on images or of a recommender."""
    from bayescl_lab.runs.folder import RunFolder

    if RunFolder.find(path).kind == "train ranking":
        from bayescl_lab.runs.ranking.inspection import inspect_ranking

        of_users = inspect_ranking(
            path,
            users=looked_at.users,
            anchors=looked_at.anchors,
            shown=looked_at.shown,
            seed=seed,
            data=looked_at.data,
        )
        report = of_users.report
        words = f"{report['users']} users, held-out items of the {report['held_out']} part"
        _show(path, of_users.diagnosis, report, words, of_users.files)
        return 0

    from bayescl_lab.runs.images.encoder import own_encoder
    from bayescl_lab.runs.images.inspection import inspect_images

    of_images = inspect_images(
        path,
        part=looked_at.part,
        images=looked_at.images,
        anchors=looked_at.anchors,
        shown=looked_at.shown,
        anchor_images=looked_at.anchor_images,
        seed=seed,
        data=looked_at.data,
        encoder=None if looked_at.encoder is None else own_encoder(looked_at.encoder),
    )
    report = of_images.report
    words = f"{report['images']} images, {looked_at.part} part"
    _show(path, of_images.diagnosis, report, words, of_images.files)
    return 0


def _inspect_file(path: Path, wanted: OfFile, seed: int) -> int:
    """Figures and a page of a file of embeddings."""
    from bayescl_lab.cli._console import console, table
    from bayescl_lab.cli._embeddings import read_embeddings
    from bayescl_lab.cli._files import check_table_file

    page = _new_page(path) if wanted.out is None else Path(wanted.out)
    check_table_file(page, (".html",))
    second_view, labels = (
        None if name is None else Path(name) for name in (wanted.second_view, wanted.labels)
    )
    arrays = read_embeddings(
        path,
        queries=wanted.queries,
        documents=wanted.documents,
        second_view=second_view,
        labels=labels,
    )

    from bayescl.diagnostics import diagnose_embeddings
    from bayescl_lab.report.embeddings import (
        batch_table,
        embeddings_page,
        losses_table,
        sentences,
    )
    from bayescl_lab.runs.advice import advise

    found = diagnose_embeddings(
        arrays.embeddings,
        arrays.second_view,
        labels=arrays.labels,
        num_classes=wanted.num_classes,
        tau_plus=wanted.tau_plus,
        temperature=wanted.temperature,
        layout=wanted.layout or ("in_batch" if arrays.are_pairs else "two_views"),
        batch_size=wanted.batch_size,
        items=wanted.items,
        seed=seed,
    )
    advice = advise(found, arrays.embeddings, arrays.second_view)
    write_atomically(page, embeddings_page(found, advice, name=path.name))
    figures = page.with_suffix(".json")
    report = {**found.figures(), "advice": advice.figures()}
    write_atomically(figures, json.dumps(report, indent=2, allow_nan=False) + "\n")
    screen = console()
    for shown, words in ((batch_table(found), 3), (losses_table(found), 1)):
        screen.print(table(shown.title.strip("*"), shown.head, shown.rows, words=words))
    for line in (*sentences(found), *advice.sentences, page, figures):
        screen.print(f"{line}", soft_wrap=True, markup=False)
    return 0


def _new_page(path: Path) -> Path:
    """A page beside a file that takes the place of no other one."""
    endings = chain([""], (f"-{number}" for number in count(2)))
    pages = (path.with_name(f"{path.stem}-inspection{ending}.html") for ending in endings)
    return next(page for page in pages if not page.exists())


def _show(
    path: Path,
    diagnosis: Diagnosis,
    report: Mapping[str, Any],
    looked_at: str,
    files: Sequence[Path],
) -> None:
    """Print the tables and the paths of files."""
    from bayescl_lab.cli._console import console

    title = f"{path} after {report['epochs']} of {report['of_epochs']} epochs: {looked_at}"
    screen = console()
    screen.print(_figures_table(diagnosis, title))
    screen.print(diagnosis.verdict, soft_wrap=True, markup=False)
    # Held-out items of a recommender are some of its false negatives, not all.
    if "held_out" not in report and diagnosis.tau_plus_hint is not None:
        screen.print(diagnosis.tau_plus_hint, soft_wrap=True, markup=False)
    if report["latent_classes"] is not None:
        screen.print(_latent_table(report["latent_classes"], diagnosis))
    if diagnosis.posteriors:
        screen.print(_posterior_table(diagnosis))
    for line in (*report.get("advice", {}).get("sentences", ()), *files):
        screen.print(f"{line}", soft_wrap=True, markup=False)


def _figures_table(found: Diagnosis, title: str) -> Table:
    """A loss's assumptions, measured values, and their effect."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("for comparison")

    def add(name: str, value: float | None, words: str = "", form: str = ".3f") -> None:
        if value is not None:
            table.add_row(name, f"{value:{form}}", words)

    add("alpha assumed", found.assumed_alpha)
    if found.measured is not None:
        words = f"the AUC itself, as the authors read it: {found.measured.authors:.3f}"
        add("alpha measured with labels", found.measured.model, words)
    if found.label_free is not None:
        words = f"the AUC itself: {found.label_free.authors:.3f}; biased upwards"
        add("alpha without labels", found.label_free.model, words)
    add("tau_plus assumed", found.assumed_tau_plus)
    add("tau_plus measured", found.measured_tau_plus)
    if found.by_weight is not None and found.by_logit is not None:
        by_similarity = found.by_logit
        add(
            "false negatives by low weight, ROC-AUC",
            found.by_weight.roc_auc,
            f"by similarity {by_similarity.roc_auc:.3f}, by chance 0.5",
        )
        add(
            "false negatives by low weight, average precision",
            found.by_weight.average_precision,
            f"by similarity {by_similarity.average_precision:.3f}, "
            f"by chance {by_similarity.share:.3f}",
        )
    if found.mean_weight_true is not None:
        add("mean weight of true negatives", found.mean_weight_true, "InfoNCE: 1")
    add("mean weight of false negatives", found.mean_weight_false, "InfoNCE: 1; the oracle: 0")
    effective = found.effective
    add(
        "effective negatives by weight", effective.weighted, f"of {effective.candidates:.0f}", ".1f"
    )
    add(
        "effective negatives in the gradient",
        effective.in_gradient,
        f"InfoNCE on the same embeddings: {effective.in_gradient_unweighted:.1f}",
        ".1f",
    )
    return table


def _latent_table(latent: Mapping[str, Any], found: Diagnosis) -> Table:
    """The latent classes that a loss has found, and how far they hold."""
    from rich.table import Table

    rows: list[tuple[str, str, str]] = []
    if not latent["fitted"]:
        kept = f"{latent['remembered']:,} of {latent['memory_size']:,} items remembered"
        rows.append(("classes", "none yet", f"{kept}; until then the loss is InfoNCE"))
    else:
        rows.append(("trust", f"{latent['trust']:.3f}", "0: the loss is InfoNCE"))
    for mixture in latent["mixtures"]:
        agreement = mixture["agreement"]
        words = "" if agreement is None else f"views agree by {agreement:.3f}"
        name = f"trust of {mixture['components']} components"
        rows.append((name, f"{mixture['trust']:.3f}", words))
    pairs = found.confident
    if pairs is not None:
        above = f"posterior above {pairs.threshold:g}"
        rows.append(("candidates that attract", f"{pairs.share:.1%}", above))
        for name, value, words in (
            ("their precision", pairs.precision, "of them of the anchor's class"),
            ("their recall", pairs.recall, "of the false negatives"),
        ):
            if value is not None:
                rows.append((name, f"{value:.1%}", words))
    made = Table(title="latent classes", title_justify="left")
    made.add_column("figure")
    made.add_column("value", justify="right")
    made.add_column("meaning")
    for row in rows:
        made.add_row(*row)
    return made


def _posterior_table(found: Diagnosis) -> Table:
    """The posterior's calibration at each set of parameters."""
    from bayescl_lab.cli._console import table

    rows = []
    for check in found.posteriors:
        skill = check.calibration.skill
        shown = "" if skill is None else f"{100 * skill:.1f}"
        assumed = ("" if v is None else f"{v:.3f}" for v in (check.alpha, check.tau_plus))
        rows.append((check.source, *assumed, f"{check.calibration.ece:.4f}", shown))
    header = ("posterior", "alpha", "tau_plus", "ECE", "variance explained, %")
    return table("posterior of a true negative", header, rows)

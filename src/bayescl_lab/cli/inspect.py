"""``bayescl inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, CountOr0, Positive, at_least
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import console, say, show, table
from bayescl_lab.cli._embeddings import is_embedding_file, read_embeddings
from bayescl_lab.cli._options import FLAT, check_output, named_encoder
from bayescl_lab.runs.folder import as_json

if TYPE_CHECKING:
    from bayescl.diagnostics import Diagnosis


@dataclass(frozen=True)
class OfRun:
    """What to inspect in a run.

    Attributes:
        part: "train" for the training images, or "evaluation" for the evaluation images.
        images: largest number of images to score, in batches of the training size.
        anchors: number of images or users to show with their candidates.
        shown: number of candidates to show for each, at each end.
        users: number of a recommender's users to inspect; default: enough for some million pairs.
        data: other data to inspect; default: the run's, which must be unchanged.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """

    part: Literal["train", "evaluation"] = "train"
    images: Annotated[int, at_least(2)] = 1024
    anchors: Count = 6
    shown: Count = 6
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
        labels: a file with labels, numbers or words, -1 or nothing where unknown, or the name of an
            array in the file of embeddings; default: its array labels, if there is one.
        ids: likewise, what each row is of, such as a document: rows of one id are never each
            other's candidates; default: the array ids.
        domains: likewise, the batch, speaker or device of each item; default: the array domains.
        num_classes: approximate number of classes; not needed with labels.
        tau_plus: share of candidates of the anchor's class; default: counted from labels, else from
            num_classes, else 0.1.
        temperature: softmax scale that the encoder was trained with; default: 0.5, and advice
            without a temperature.
        layout: "two_views" of items, or "in_batch" for pairs such as queries and documents, the
            default if arrays are called so.
        batch_size: items in a batch.
        items: largest number of items to score.
        out: the HTML page; default: a new one beside the file of embeddings. A .json file with the
            figures is written beside it.
    """

    queries: str | None = None
    documents: str | None = None
    second_view: Path | None = None
    labels: str | None = None
    ids: str | None = None
    domains: str | None = None
    num_classes: Annotated[int, at_least(2)] | None = None
    tau_plus: FiniteFloat | None = None
    temperature: Positive | None = None
    layout: Literal["two_views", "in_batch"] | None = None
    batch_size: Annotated[int, at_least(2)] = 256
    items: Annotated[int, at_least(2)] = 1024
    out: Path | None = None


def inspect(
    run_or_file: Path,
    *,
    of_run: Annotated[OfRun, FLAT] = OfRun(),
    of_file: Annotated[OfFile, FLAT] = OfFile(),
    seed: CountOr0 = 0,
) -> None:
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
        seed: seed for drawing images, users or items, and for the images' views.
    """
    is_file = is_embedding_file(run_or_file)
    options, others = (of_file, of_run) if is_file else (of_run, of_file)
    why = f"a run folder, but {run_or_file} is a file"
    if not is_file:
        why = f"a file of embeddings, but {run_or_file} is a folder"
    for option in fields(others):
        if getattr(others, option.name) != option.default:
            raise ValueError(f"--{option.name.replace('_', '-')} is for {why}")
    (_inspect_file if is_file else _inspect_run)(run_or_file, {**vars(options), "seed": seed})


def _inspect_run(path: Path, options: dict[str, Any]) -> None:
    """Figures of a run on images or of a recommender."""
    from bayescl_lab.report.embeddings import advice_sentences
    from bayescl_lab.runs.run import Kind

    users, encoder = options.pop("users"), named_encoder(options.pop("encoder"))
    of_images = {name: options.pop(name) for name in ("part", "images")}
    if Kind.of(path) is Kind.RANKING:
        from bayescl_lab.runs.ranking.inspection import inspect_ranking

        inspection = inspect_ranking(path, users=users, **options)
        report = inspection.report
        inspected = f"{report['users']} users, held-out items of the {report['held_out']} part"
    else:
        from bayescl_lab.runs.images.inspection import inspect_images

        inspection = inspect_images(path, encoder=encoder, **of_images, **options)
        report = inspection.report
        inspected = f"{report['images']} images, {of_images['part']} part"

    diagnosis, screen = inspection.diagnosis, console()
    title = f"{path} after {report['epochs']} of {report['of_epochs']} epochs: {inspected}"
    head = ("figure", "value", "for comparison")
    screen.print(table(title, head, _figures(diagnosis), words=3))
    if report["latent_classes"] is not None:
        rows = _latent_classes(report["latent_classes"], diagnosis)
        screen.print(table("latent classes", ("figure", "value", "meaning"), rows, words=3))
    if diagnosis.posteriors:
        names = ("posterior", "alpha", "tau_plus", "ECE", "variance explained, %")
        screen.print(table("posterior of a true negative", names, _posteriors(diagnosis)))
    if inspection.advice is not None:
        say(*advice_sentences(inspection.advice))
    say(*inspection.files)


def _inspect_file(path: Path, options: dict[str, Any]) -> None:
    """Figures and a page of a file of embeddings."""
    page = check_output(options.pop("out") or _new_page(path), ".html")
    names = ("queries", "documents", "second_view", "labels", "ids", "domains")
    arrays = read_embeddings(path, **{name: options.pop(name) for name in names})

    from bayescl.diagnostics import diagnose_embeddings
    from bayescl_lab.report.embeddings import (
        advice_sentences,
        batch_table,
        embeddings_page,
        losses_table,
        sentences,
    )
    from bayescl_lab.runs.advice import advise

    options["layout"] = options["layout"] or ("in_batch" if arrays.are_pairs else "two_views")
    views = arrays.embeddings, arrays.second_view
    codes: Any = {"labels": arrays.labels, "groups": arrays.ids, "domains": arrays.domains}
    diagnosis = diagnose_embeddings(views[0], views[1], **codes, **options)
    advice = advise(diagnosis, *views, ids=arrays.ids)
    write_atomically(page, embeddings_page(diagnosis, advice, name=path.name))
    figures = page.with_suffix(".json")
    write_atomically(figures, as_json({**diagnosis.figures(), "advice": advice.figures()}))
    if arrays.unused:
        say(f"not used: {arrays.unused}")
    for shown in (batch_table(diagnosis), losses_table(diagnosis)):
        show(shown.title.strip("*"), shown)
    say(*sentences(diagnosis), *advice_sentences(advice), page, figures)


def _new_page(path: Path) -> Path:
    """A page beside a file that takes the place of no other one."""
    page, number = path.with_name(f"{path.stem}-inspection.html"), 1
    while page.exists():
        number += 1
        page = path.with_name(f"{path.stem}-inspection-{number}.html")
    return page


def _figures(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """A loss's assumptions, measured values, and their effect."""
    rows: list[tuple[str, float | None, str]] = [("alpha assumed", diagnosis.assumed_alpha, "")]
    if diagnosis.measured is not None:
        words = f"the AUC itself, as the authors read it: {diagnosis.measured.authors:.3f}"
        rows.append(("alpha measured with labels", diagnosis.measured.model, words))
    if diagnosis.label_free is not None:
        words = f"the AUC itself: {diagnosis.label_free.authors:.3f}; biased upwards"
        rows.append(("alpha without labels", diagnosis.label_free.model, words))
    rows.append(("tau_plus assumed", diagnosis.assumed_tau_plus, ""))
    rows.append(("tau_plus measured", diagnosis.measured_tau_plus, ""))
    weight, logit = diagnosis.by_weight, diagnosis.by_logit
    if weight is not None and logit is not None:
        name = "false negatives by low weight, "
        words = f"by similarity {logit.roc_auc:.3f}, by chance 0.5"
        rows.append((f"{name}ROC-AUC", weight.roc_auc, words))
        words = f"by similarity {logit.average_precision:.3f}, by chance {logit.share:.3f}"
        rows.append((f"{name}average precision", weight.average_precision, words))
    rows.append(("mean weight of true negatives", diagnosis.mean_weight_true, "InfoNCE: 1"))
    words = "InfoNCE: 1; the oracle: 0"
    rows.append(("mean weight of false negatives", diagnosis.mean_weight_false, words))
    effective = diagnosis.effective
    words = f"InfoNCE on the same embeddings: {effective.in_gradient_unweighted:.1f}"
    return [
        *((name, f"{value:.3f}", words) for name, value, words in rows if value is not None),
        (
            "effective negatives by weight",
            f"{effective.weighted:.1f}",
            f"of {effective.candidates:.0f}",
        ),
        ("effective negatives in the gradient", f"{effective.in_gradient:.1f}", words),
    ]


def _latent_classes(latent: Mapping[str, Any], diagnosis: Diagnosis) -> list[Sequence[str]]:
    """The latent classes that a loss has found, and how far they hold."""
    from bayescl_lab.report.embeddings import pair_rows

    kept = f"{latent['remembered']:,} of {latent['memory_size']:,} items remembered"
    rows: list[Sequence[str]] = [("classes", "none yet", f"{kept}; until then the loss is InfoNCE")]
    if latent["fitted"]:
        rows = [("trust", f"{latent['trust']:.3f}", "0: the loss is InfoNCE")]
    for mixture in latent["mixtures"]:
        agreement = mixture["agreement"]
        words = "" if agreement is None else f"views agree by {agreement:.3f}"
        name = f"trust of {mixture['components']} components"
        rows.append((name, f"{mixture['trust']:.3f}", words))
    return rows + pair_rows(diagnosis.confident)


def _posteriors(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """The posterior's calibration at each set of parameters."""
    rows = []
    for check in diagnosis.posteriors:
        skill = check.calibration.skill
        shown = "" if skill is None else f"{100 * skill:.1f}"
        assumed = ("" if v is None else f"{v:.3f}" for v in (check.alpha, check.tau_plus))
        rows.append((check.source, *assumed, f"{check.calibration.ece:.4f}", shown))
    return rows

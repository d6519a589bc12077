"""``bayescl inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from bayescl._fields import Count, CountOr0, at_least

if TYPE_CHECKING:
    from rich.table import Table

    from bayescl.diagnostics import Diagnosis


def command(
    run: str,
    *,
    part: Literal["train", "evaluation"] = "train",
    images: Annotated[int, at_least(2)] = 1024,
    anchors: Count = 6,
    shown: Count = 6,
    anchor_images: tuple[int, ...] = (),
    users: Count | None = None,
    seed: CountOr0 = 0,
    data: str | None = None,
    encoder: str | None = None,
) -> int:
    """Show which candidates a run's loss takes for false negatives, and whether they are.

    The figures are also written into the run's folder: inspection.json, and pictures of the
    posterior's calibration, of the weights, of the candidates weighed least and most and, for the
    latent loss, of its components. Without labels only what needs none is shown. Of a recommender,
    items that were held out play the part of false negatives.

    Args:
        run: the run folder.
        part: "train" for images that the loss has seen, or "evaluation" for those that judge.
        images: how many images to score at most, in batches as large as in training.
        anchors: how many images or users to show with their candidates.
        shown: candidates at either end to show for each.
        anchor_images: the images to show, by their numbers with commas between; default: drawn.
        users: how many users of a recommender to look at; default: some million pairs' worth.
        seed: which images or users are drawn, and the images' views.
        data: look at other data; default: what the run was trained on, which must be unchanged.
        encoder: my_module:build, as in training, of a run with an encoder of your own.
    """
    from bayescl.runs.folder import RunFolder

    path = Path(run)
    if RunFolder.find(path).kind == "train ranking":
        from bayescl.runs.ranking.inspection import inspect_ranking

        of_users = inspect_ranking(
            path, users=users, anchors=anchors, shown=shown, seed=seed, data=data
        )
        report = of_users.report
        looked_at = f"{report['users']} users, held-out items of the {report['held_out']} part"
        _show(path, of_users.diagnosis, report, looked_at, of_users.files)
        return 0

    from bayescl.runs.images.encoder import own_encoder
    from bayescl.runs.images.inspection import inspect_images

    of_images = inspect_images(
        path,
        part=part,
        images=images,
        anchors=anchors,
        shown=shown,
        anchor_images=anchor_images,
        seed=seed,
        data=data,
        encoder=None if encoder is None else own_encoder(encoder),
    )
    report = of_images.report
    looked_at = f"{report['images']} images, {part} part"
    _show(path, of_images.diagnosis, report, looked_at, of_images.files)
    return 0


def _show(
    path: Path,
    diagnosis: Diagnosis,
    report: Mapping[str, Any],
    looked_at: str,
    files: Sequence[Path],
) -> None:
    """Print the tables, and where files are."""
    from bayescl.cli._console import console

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
    for file in files:
        screen.print(f"{file}", soft_wrap=True)


def _figures_table(found: Diagnosis, title: str) -> Table:
    """What a loss assumes, what is so, and what comes of it."""
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
    """What latent classes a loss has found, and how far they hold."""
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
    from bayescl.cli._console import table

    rows = []
    for check in found.posteriors:
        skill = check.calibration.skill
        shown = "" if skill is None else f"{100 * skill:.1f}"
        assumed = ("" if v is None else f"{v:.3f}" for v in (check.alpha, check.tau_plus))
        rows.append((check.source, *assumed, f"{check.calibration.ece:.4f}", shown))
    header = ("posterior", "alpha", "tau_plus", "ECE", "variance explained, %")
    return table("posterior of a true negative", header, rows)

"""The HTML page of ``bayescl inspect FILE``, a diagnosis of embeddings."""

from __future__ import annotations

from collections.abc import Iterator

from bayescl.diagnostics import (
    ConfidentPairs,
    EmbeddingDiagnosis,
    reliability_figure,
    similarity_figure,
    weights_figure,
)
from bayescl_lab.report.html import Section, figure_png, page_of
from bayescl_lab.report.tables import Table
from bayescl_lab.runs.advice import LATENT, Advice

_TAU_PLUS = {
    "labels": "counted with labels",
    "given": "if tau_plus is as given",
    "default": "if tau_plus is 0.1, the default; set --num-classes for a better value",
}


def embeddings_page(found: EmbeddingDiagnosis, advice: Advice, *, name: str) -> str:
    """A diagnosis of embeddings as self-contained HTML.

    Args:
        found: what :func:`~bayescl.diagnostics.diagnose_embeddings` returned.
        advice: what to do, the last of the findings.
        name: name of the embeddings.
    """
    views = "two views of each" if found.views == 2 else "one view of each"
    labels = "There are no labels to judge by."
    if found.labelled:
        labels = f"Labels of {found.labelled_items:,} judge."
    section = Section(
        f"{name}: {found.items:,} embeddings",
        [
            f"{found.batches} batch{'es' * (found.batches != 1)} of "
            f"{found.batch_size} items, {views}, {found.dim} coordinates. Every anchor has "
            f"{found.candidates} candidates. {labels}"
        ],
        [batch_table(found), losses_table(found)],
        [*sentences(found), *advice.sentences],
        list(_pictures(found)),
        {
            "layout": found.layout,
            "temperature": found.temperature,
            "tau_plus": found.tau_plus,
            "tau_plus from": found.tau_plus_from,
            "items that latent classes were fitted to": found.fitted,
        },
    )
    return page_of([section], "made from embeddings")


def batch_table(found: EmbeddingDiagnosis) -> Table:
    """The number of false negatives, and how well they are found."""
    false = f"{found.false_negatives:.1f} of {found.candidates}"
    rows = [
        ["false negatives of an anchor", false, _TAU_PLUS[found.tau_plus_from]],
        ["their share, tau_plus", f"{found.tau_plus:.4f}", ""],
    ]
    if found.nearest_false is not None:
        text = "of the ten most similar candidates of each anchor"
        rows.append(["false among the nearest", f"{found.nearest_false:.1%}", text])
    told = found.losses["Bayesian"].diagnosis.by_logit
    if told is not None:
        text = "0.5 is chance, 1 is perfect"
        rows.append(["told by similarity, ROC-AUC", f"{told.roc_auc:.3f}", text])
    latent = found.losses.get(LATENT)
    if latent is not None and found.trust is not None and found.found is not None:
        by_weight = latent.diagnosis.by_weight
        if by_weight is not None:
            rows.append(["told by latent classes, ROC-AUC", f"{by_weight.roc_auc:.3f}", ""])
        text = "how far the latent classes are trusted; at 0 the loss is InfoNCE"
        rows.append(["trust", f"{found.trust:.3f}", text])
        text = "false negatives of an anchor, found without labels"
        rows.append(["expected by latent classes", f"{found.found:.1f}", text])
        rows += pair_rows(latent.diagnosis.confident)
    head, title = ["figure", "value", "meaning"], "**False negatives in a batch**"
    return Table(head, rows, title=title, numeric=False)


def pair_rows(pairs: ConfidentPairs | None) -> list[list[str]]:
    """The candidates that attract their anchor, and how many rightly do."""
    if pairs is None:
        return []
    rows = [
        ("candidates that attract", pairs.share, f"posterior above {pairs.threshold:g}"),
        ("their precision", pairs.precision, "of them are of the anchor's class"),
        ("their recall", pairs.recall, "of the false negatives are among them"),
    ]
    return [[name, f"{value:.1%}", text] for name, value, text in rows if value is not None]


def losses_table(found: EmbeddingDiagnosis) -> Table:
    """The weights of each loss."""
    head = ["loss", "effective negatives"]
    note = (
        "Effective negatives: the number of equally weighted candidates with as even a gradient. "
        "The debiased loss weights candidates as InfoNCE does and corrects their sum."
    )
    if found.labelled:
        head[1:1] = ["ROC-AUC", "weight of false", "weight of true", "repulsion on false"]
        note = (
            "ROC-AUC: how well low weights find false negatives; 0.5 is chance. Repulsion on "
            f"false: share of the gradient that pushes false negatives away. {note}"
        )
    rows = []
    for title, loss in found.losses.items():
        one, row = loss.diagnosis, [title]
        if found.labelled:
            auc = None if one.by_weight is None else one.by_weight.roc_auc
            values = (auc, one.mean_weight_false, one.mean_weight_true)
            row += ["" if value is None else f"{value:.3f}" for value in values]
            row.append("" if loss.false_share is None else f"{loss.false_share:.1%}")
        rows.append([*row, f"{one.effective.in_gradient:.0f}"])
    return Table(head, rows, title="**What each loss would weigh**", note=note)


def sentences(found: EmbeddingDiagnosis) -> Iterator[str]:
    """What the figures say."""
    plain = found.losses["InfoNCE"].false_share
    if plain is not None:
        told = [
            f"the {title}{'' if title == LATENT else ' loss'} {loss.false_share:.0%}"
            for title, loss in found.losses.items()
            if title in ("Bayesian", LATENT) and loss.false_share is not None
        ]
        yield (
            f"With InfoNCE {plain:.0%} of the repulsion falls on false negatives, with "
            f"{' and with '.join(told)}."
        )
    if not found.labelled:
        yield (
            "Without labels the number of false negatives is an assumption. Labels of a few "
            "hundred items are enough to count them."
        )


def _pictures(found: EmbeddingDiagnosis) -> Iterator[tuple[str, bytes]]:
    """Captions with PNG files."""
    caption = "The similarity of candidates, and the mean weight that each loss gives them."
    yield caption, figure_png(similarity_figure, found)
    for title in ("Bayesian", LATENT):
        if title in found.losses:
            diagnosis = found.losses[title].diagnosis
            yield f"Weights: {title}.", figure_png(weights_figure, diagnosis)
            if title == LATENT and diagnosis.posteriors:
                caption = "The posterior against the share of true negatives."
                yield caption, figure_png(reliability_figure, diagnosis)

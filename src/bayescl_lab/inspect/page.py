"""Tables, figures, sentences and the HTML page of an inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayescl_lab._figures import (
    FALSE_COLOR,
    NEUTRAL,
    TRUE_COLOR,
    legend_under,
    panels,
    png,
)
from bayescl_lab.inspect.findings import Advice
from bayescl_lab.inspect.measures import EmbeddingDiagnosis
from bayescl_lab.report.html import Section, page_of
from bayescl_lab.report.tables import Table, number, paragraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COUNTED = {
    "labels": "candidates, counted with labels",
    "given": "candidates, if --tau-plus is right",
}
_UNKNOWN = "labels count them; --tau-plus, about 1 / classes, estimates them"
_CAPTION = "The similarity of candidates. False negatives to the right are found by similarity."


def embeddings_page(advice: Advice, name: str, measured: str) -> str:
    """Return measures and findings as self-contained HTML.

    Args:
        advice: Result of :func:`~bayescl_lab.inspect.findings.advise`.
        name: Name of the embeddings.
        measured: Description of the embeddings.
    """
    diagnosis = advice.diagnosis
    names = ("layout", "temperature", "temperature_from", "tau_plus", "tau_plus_from")
    section = Section(
        f"{name}: {diagnosis.items:,} embeddings",
        [f"Measured on {measured}.", paragraph("about_embeddings", diagnosis)],
        [measures_table(advice), losses_table(diagnosis)],
        sentences(advice),
        [(_CAPTION, png(similarity_figure(diagnosis), dpi=130))],
        {name.replace("_", " "): getattr(diagnosis, name) for name in names},
    )
    return page_of([section], "made from embeddings")


def measures_table(advice: Advice) -> Table:
    """Return a table of false negatives in a batch, and of neighborhoods."""
    found, around = advice.diagnosis, advice.diagnosis.neighborhood
    false = f"{found.false_negatives:.1f} of {found.candidates}"
    is_known = found.tau_plus_from in _COUNTED
    counted = (false, _COUNTED[found.tau_plus_from]) if is_known else ("unknown", _UNKNOWN)
    by_chance = f"by chance {around.by_chance:.1%}"
    rows = [
        ("false negatives of an anchor", *counted),
        ("tau_plus", f"{found.tau_plus:.4f}" if is_known else "", "their share"),
        ("alpha", number(found.alpha), "how well similarity finds them, from 0.5 to 1"),
        ("false among the nearest", number(found.nearest_false, ".1%"), "of ten candidates"),
        ("nearest of the same domain", number(around.same_domain, ".1%"), by_chance),
        ("mean cosine", number(1 - around.variance, ".4f"), "of two items; 1 if collapsed"),
        ("copies", f"{advice.copied:.1%}", "of the items occur more than once"),
        ("effective dimension", f"{around.effective_dim:.1f}", f"of {found.dim}"),
        ("hubs", f"{around.hub_share:.1%}", "of all nearest neighbors are 1% of the items"),
    ]
    head = ("measure", "value", "meaning")
    records = [dict(zip(head, row, strict=True)) for row in rows if row[1]]
    return Table(records, "**Measures**", numeric=False)


def losses_table(diagnosis: EmbeddingDiagnosis) -> Table:
    """Return a table of the weights of each loss; empty without labels."""
    note = (
        "Repulsion on false: share of the gradient that pushes false negatives away. "
        "The debiased loss weights candidates as InfoNCE does and corrects their sum."
    )
    records = [
        {
            "loss": title,
            "weight of false negatives": number(loss.mean_weight_false),
            "of true negatives": number(loss.mean_weight_true),
            "repulsion on false": number(loss.false_share, ".1%"),
        }
        for title, loss in diagnosis.losses.items()
        if diagnosis.labeled_items
    ]
    return Table(records, "**Mean weights of candidates**", note)


def sentences(advice: Advice) -> list[str]:
    """Return the findings, explanations of the arguments, and the recommendation."""
    names = ("repulsion", "labels_wanted", "temperature", "domains", "hubs")
    findings = [text for name in names if (text := paragraph(name, advice))]
    explained = [*advice.pass_on, *["positive_share"] * (advice.share < 0.5)]
    arguments = [paragraph("argument", advice, name) for name in explained]
    return [*findings, *arguments, paragraph("recommendation", advice)]


def similarity_figure(diagnosis: EmbeddingDiagnosis) -> Figure:
    """Plot the similarity of candidates; with labels, by true and false negatives."""
    figure, (axis,) = panels(1, 1, width=6.6, height=4.2)
    edges, true, false = diagnosis.similarity
    kinds = [("candidates", NEUTRAL, true)]
    if false is not None:
        kinds = [("true negatives", TRUE_COLOR, true), ("false negatives", FALSE_COLOR, false)]
    for name, color, count in kinds:
        shares = count.double() / max(1, int(count.sum()))
        look: Any = {"color": color, "lw": 1.2}
        axis.stairs(shares, edges, fill=True, alpha=0.35, label=name, **look)
        axis.stairs(shares, edges, **look)
    axis.set(xlabel="cosine similarity of anchor and candidate", ylabel="share of its kind")
    legend_under(axis)
    return figure

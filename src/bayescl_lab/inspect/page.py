"""Tables, figures, sentences and the HTML page of an inspection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bayescl.axes import Int, Tensor
from bayescl.diagnostics import Diagnosis, WeightHistogram
from bayescl_lab._figures import (
    FALSE_COLOUR,
    LEVELS,
    NEUTRAL,
    TRUE_COLOUR,
    legend_below,
    legend_under,
    panels,
    png,
)
from bayescl_lab.inspect.findings import Advice
from bayescl_lab.inspect.measures import EmbeddingDiagnosis
from bayescl_lab.report.html import Section, page_of
from bayescl_lab.report.tables import Table, number, paragraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TAU_PLUS = {"labels": "counted with labels", "given": "if tau_plus is as given"}
_UNKNOWN = "labels count them, and --num-classes estimates them"
_CHECKS = (("#009E73", "o"), ("#0072B2", "s"), ("#CC79A7", "^"), ("#E69F00", "D"))


def embeddings_page(diagnosis: EmbeddingDiagnosis, advice: Advice, name: str, measured: str) -> str:
    """A diagnosis of embeddings as self-contained HTML.

    Args:
        diagnosis: Result of :func:`~bayescl_lab.inspect.measures.diagnose_embeddings`.
        advice: The last of the findings.
        name: Name of the embeddings.
        measured: What the embeddings are.
    """
    names = ("layout", "temperature", "temperature_from", "tau_plus", "tau_plus_from")
    section = Section(
        f"{name}: {diagnosis.items:,} embeddings",
        [f"Measured on {measured}.", paragraph("about_embeddings", diagnosis)],
        [batch_table(diagnosis), losses_table(diagnosis)],
        sentences(advice),
        list(_pictures(diagnosis)),
        {name.replace("_", " "): getattr(diagnosis, name) for name in names},
    )
    return page_of([section], "made from embeddings")


def batch_table(found: EmbeddingDiagnosis) -> Table:
    """False negatives in a batch, and the neighbourhoods."""
    false = f"{found.false_negatives:.1f} of {found.candidates}"
    by_logit, hubs = found.losses["Bayesian"].by_logit, found.neighbourhood.hub_share
    is_known = found.tau_plus_from in _TAU_PLUS
    counted = (false, _TAU_PLUS[found.tau_plus_from]) if is_known else ("unknown", _UNKNOWN)
    explained = f"by chance {number(found.domain_by_chance, '.1%')}"
    rows = [
        ("false negatives of an anchor", *counted),
        ("their share, tau_plus", f"{found.tau_plus:.4f}" if is_known else "", ""),
        ("alpha", number(found.alpha), "measured with labels"),
        ("false among the nearest", number(found.nearest_false, ".1%"), "of the ten nearest"),
        ("found by similarity, ROC-AUC", number(by_logit and by_logit.roc_auc), "0.5: chance"),
        ("of one domain among the nearest", number(found.nearest_domain, ".1%"), explained),
        ("effective dimension", f"{found.neighbourhood.effective_dim:.1f}", f"of {found.dim}"),
        ("hubs", f"{hubs:.1%}", "of all nearest neighbours are 1% of the items"),
    ]
    head = ("figure", "value", "meaning")
    records = [dict(zip(head, row, strict=True)) for row in rows if row[1]]
    return Table(records, "**False negatives in a batch**", numeric=False)


def losses_table(diagnosis: EmbeddingDiagnosis) -> Table:
    """The weights of each loss."""
    note = (
        "Effective negatives: the number of equally weighted candidates with as even a gradient. "
        "The debiased loss weights candidates as InfoNCE does and corrects their sum."
    )
    if diagnosis.labelled_items:
        note = (
            "ROC-AUC: how well low weights find false negatives; 0.5 is chance. Repulsion on "
            f"false: share of the gradient that pushes false negatives away. {note}"
        )
    records = []
    for title, loss in diagnosis.losses.items():
        record = {
            "loss": title,
            "ROC-AUC": number(loss.by_weight and loss.by_weight.roc_auc),
            "weight of false": number(loss.mean_weight_false),
            "weight of true": number(loss.mean_weight_true),
            "repulsion on false": number(loss.false_share, ".1%"),
            "effective negatives": number(loss.effective.in_gradient, ".0f"),
        }
        records.append(record)
    return Table(records, "**What each loss would weigh**", note)


def sentences(advice: Advice) -> list[str]:
    """Return the findings, the advice and its reason."""
    found = advice.diagnosis
    paragraphs = [paragraph("repulsion", found.losses), paragraph("labels_wanted", found)]
    return [*filter(None, paragraphs), *advice_sentences(advice)]


def advice_sentences(advice: Advice) -> list[str]:
    """Return the advice and its reason in a few sentences."""
    names = ("advice", "copies", "popular", "domains", "hubs", "temperature")
    return [text for name in names if (text := paragraph(name, advice))]


def _pictures(diagnosis: EmbeddingDiagnosis) -> Iterator[tuple[str, bytes]]:
    """Captions with PNG files."""
    caption = "The similarity of candidates, and the mean weight that each loss gives them."
    yield caption, png(similarity_figure(diagnosis), dpi=130)
    yield "Weights: Bayesian.", png(weights_figure(diagnosis.losses["Bayesian"]), dpi=130)


def reliability_figure(diagnosis: Diagnosis, *, title: str = "") -> Figure:
    """Plot the share of true negatives against the posterior, for each set of parameters.

    On the diagonal the posterior is calibrated; below it, its predictions are too high.

    Args:
        diagnosis: A diagnosis with labels.
        title: Title of the figure.

    Raises:
        ValueError: if the diagnosis has no labels.
    """
    if not diagnosis.posteriors:
        raise ValueError("a reliability diagram needs labels, got a diagnosis without")
    figure, (axis,) = panels(1, 1, width=6.0, height=5.6)
    lowest = 1.0
    for check, (colour, marker) in zip(diagnosis.posteriors, _CHECKS, strict=False):
        points = check.predicted, check.observed
        lowest = min(lowest, *(float(values.min()) for values in points))
        label = f"{check.name}, ECE {check.ece:.4f}"
        axis.plot(*points, color=colour, marker=marker, ms=4.5, lw=1.4, label=label)
    start = max(0.0, lowest - 0.05)
    axis.plot([start, 1], [start, 1], color=NEUTRAL, lw=0.9, ls=":", label="calibrated")
    axis.set(xlim=(start, 1.01), ylim=(start, 1.01), ylabel="share of true negatives")
    axis.set_xlabel("posterior probability of a true negative")
    axis.set_title(title, fontsize=11)
    legend_below(figure, axis, columns=1, size=8.5)
    return figure


def weights_figure(diagnosis: Diagnosis, *, title: str = "") -> Figure:
    """Plot the distribution of weights of true and of false negatives, each adding up to 1."""
    figure, (axis,) = panels(1, 1, width=6.4, height=4.4)
    means = (diagnosis.mean_weight_true, diagnosis.mean_weight_false)
    _draw_kinds(axis, diagnosis.histogram, means)
    axis.axvline(1, color=NEUTRAL, lw=0.9, ls=":")
    axis.set(xlabel="weight of a candidate (InfoNCE: 1)", ylabel="share of its kind")
    axis.set_title(title, fontsize=11)
    legend_below(figure, axis, columns=2, size=8.5)
    return figure


def similarity_figure(diagnosis: EmbeddingDiagnosis) -> Figure:
    """Plot the similarity of candidates, and the weight that each loss gives them.

    With labels, the upper panel has one curve for true and one for false negatives. The lower panel
    has one curve per loss. The oracle's is the share of true negatives at that similarity, which a
    posterior should follow.
    """
    figure, (upper, lower) = panels(2, 1, width=6.6, height=7.4)
    edges = diagnosis.similarity.edges
    inhabited = _draw_kinds(upper, diagnosis.similarity).nonzero().flatten()
    upper.set_ylabel("share of its kind")
    middles = (edges[1:] + edges[:-1]) / 2
    colours = iter(LEVELS)
    for name, weights in diagnosis.weight_by_similarity.items():
        colour = NEUTRAL if name == "InfoNCE" else next(colours)
        lower.plot(middles, weights, color=colour, lw=1.6, label=name)
    lower.set_ylabel("mean weight of a candidate")
    # The hard loss's weights leave the others no room otherwise.
    lower.set_ylim(-0.05, 3)
    start = float(edges[inhabited[0]])
    for axis in (upper, lower):
        axis.set(xlim=(start, 1.0), xlabel="cosine similarity of anchor and candidate")
        legend_under(axis, columns=5, size=8.5)
    return figure


def _draw_kinds(
    axis: Axes, histogram: WeightHistogram, means: tuple[float | None, float | None] | None = None
) -> Int[Tensor, " bins"]:
    """Draw the distribution of each kind of candidates, each adding up to 1; return all counts."""
    true, false = histogram.true_negatives, histogram.false_negatives
    if false is None:
        kinds = [("candidates", NEUTRAL, true)]
    else:
        kinds = [("true negatives", TRUE_COLOUR, true), ("false negatives", FALSE_COLOUR, false)]
    for place, (name, colour, count) in enumerate(kinds):
        shares = count.double() / max(1, int(count.sum()))
        if means is not None:
            mean = None if false is None else means[place]
            name = f"{int(count.sum()):,} {name}" + ("" if mean is None else f", mean {mean:.3f}")
        look: Any = {"color": colour, "lw": 1.2}
        axis.stairs(shares, histogram.edges, fill=True, alpha=0.35, label=name, **look)
        axis.stairs(shares, histogram.edges, **look)
    return true if false is None else true + false

"""Table, figure, sentences and the HTML page of an inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from bayescl_lab._figures import FALSE_COLOR, NEUTRAL, TRUE_COLOR, panels, png
from bayescl_lab._types import Config
from bayescl_lab.inspect.findings import Advice
from bayescl_lab.inspect.measures import EmbeddingDiagnosis
from bayescl_lab.report.html import Section, page_of
from bayescl_lab.report.tables import ReportTable, number, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure
    from torch import Tensor

    from bayescl_lab.inspect.suspects import Suspects

_COLORS = dict(zip(("true negatives", "false negatives"), (TRUE_COLOR, FALSE_COLOR), strict=True))
_SHOWN = 6
"""Number of anchors in the figure of suspects, and of suspects of each."""
_NEAREST = "of the most similar 4% of the candidates"
_CAPTION = "Similarity of candidates. False negatives right of true negatives are easy to find."


def embeddings_page(advice: Advice, name: str, measured: str) -> str:
    """Return measures and findings as self-contained HTML.

    Args:
        advice: Result of :func:`~bayescl_lab.inspect.findings.advise`.
        name: Name of the embeddings.
        measured: Description of the embeddings.
    """
    diagnosis = advice.diagnosis
    section = Section(
        f"{name}: {diagnosis.items:,} embeddings",
        [f"Measured on {measured}.", paragraph("about_embeddings", diagnosis)],
        [measures_table(advice)],
        sentences(advice),
        [(_CAPTION, png(similarity_figure(diagnosis), dpi=130))],
    )
    return page_of([section], "made from embeddings")


def measures_table(advice: Advice) -> ReportTable:
    """Return a table of false negatives in a batch, and of neighborhoods."""
    found, around = advice.diagnosis, advice.diagnosis.neighborhood
    false = "candidates of its class"
    rows = [
        ("false negatives of an anchor", number(found.false_negatives, ".1f"), false),
        (
            "tau_plus",
            number(found.tau_plus, ".4f"),
            f"their share of {found.candidates} candidates",
        ),
        ("alpha", number(found.alpha), "how well similarity finds them, from 0.5 to 1"),
        ("false among the nearest", number(found.nearest_false, ".1%"), _NEAREST),
        (
            "agreement of views",
            number(found.agreement, ".1%"),
            "of candidates are less similar than positives",
        ),
        (
            "nearest of the same domain",
            number(around.same_domain, ".1%"),
            f"by chance {around.by_chance:.1%}",
        ),
        ("k-NN accuracy", number(around.knn, ".1%"), "of the 10 nearest neighbors"),
        (
            "k-NN, other domains",
            number(around.knn_domains, ".1%"),
            "from other domains; if far below k-NN accuracy, domains hide classes",
        ),
        ("mean cosine", number(1 - around.variance, ".4f"), "of two items; 1 if collapsed"),
        ("copies", f"{advice.copied:.1%}", "of the items occur more than once"),
        ("effective dimension", f"{around.effective_dim:.1f}", f"of {found.dim}"),
        ("hubs", f"{around.hub_share:.1%}", "of neighbors come from 1% of the items"),
    ]
    head = ("measure", "value", "meaning")
    records = [dict(zip(head, row, strict=True)) for row in rows if row[1]]
    return ReportTable(records, "**Measures**", numeric=False)


def sentences(advice: Advice) -> list[str]:
    """Return the findings, explanations of the arguments, and the recommendation."""
    names = ("labels_wanted", "domains", "possible_domains", "hubs")
    findings = [text for name in names if (text := paragraph(name, advice))]
    share = ["positive_share"] * ("positive_share" in (advice.loss or ""))
    arguments = [paragraph("argument", advice, name) for name in (*advice.pass_on, *share)]
    return [*findings, *arguments, paragraph("recommendation", advice)]


def similarity_figure(diagnosis: EmbeddingDiagnosis) -> Figure:
    """Plot the similarity of candidates; with labels, by true and false negatives."""
    figure, (axis,) = panels(1, 1, width=6.6, height=4.2)
    for name, count in diagnosis.similarity.items():
        shares = count.double() / max(1, int(count.sum()))
        edges = np.linspace(-1, 1, len(count) + 1)
        look: Config = {"color": _COLORS.get(name, NEUTRAL), "lw": 1.2}
        axis.stairs(shares, edges, fill=True, alpha=0.35, label=name, **look)
        axis.stairs(shares, edges, **look)
    axis.set(xlabel="cosine similarity of anchor and candidate", ylabel="share of its kind")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
    return figure


def suspects_figure(
    suspects: Suspects, pictures: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Figure:
    """Show the most suspicious images: one row of anchor, positive and suspects per anchor.

    Args:
        suspects: List of suspects of images.
        pictures: Function that returns the images of some rows, without augmentation and augmented.
    """
    anchors = list(dict.fromkeys(suspects.anchors.tolist()))[:_SHOWN]
    figure, axes = panels(max(1, len(anchors)), 2 + _SHOWN, width=8, height=0.9 * len(anchors) + 1)
    for axis in axes:
        axis.set_axis_off()
    for row, anchor in enumerate(anchors):
        found = suspects.candidates[suspects.anchors == anchor][:_SHOWN]
        plain, augmented = pictures(torch.cat([torch.tensor([anchor]), found]))
        shown = [("anchor", plain[0]), ("positive", augmented[0])]
        shown += [(f"suspect {number}", image) for number, image in enumerate(plain[1:], 1)]
        for axis, (title, image) in zip(axes[row * (2 + _SHOWN) :], shown, strict=False):
            channels = image.permute(1, 2, 0)[:, :, : 3 if len(image) >= 3 else 1]
            axis.imshow(channels.clamp(0, 1).numpy(), cmap="gray", vmin=0, vmax=1)
            axis.set_title(title if row == 0 else "", fontsize=8)
    return figure

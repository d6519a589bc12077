"""The HTML page of ``bayescl inspect FILE``, a diagnosis of embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from bayescl_lab._figures import png
from bayescl_lab.inspect.findings import Advice
from bayescl_lab.inspect.measures import EmbeddingDiagnosis
from bayescl_lab.inspect.plots import similarity_figure, weights_figure
from bayescl_lab.report.html import Section, page_of
from bayescl_lab.report.tables import Table, number, paragraph

_TAU_PLUS = {"labels": "counted with labels", "given": "if tau_plus is as given"}
_UNKNOWN = "labels count them, and --num-classes estimates them"


Domains = Mapping[str, tuple[float, float]]
"""Share of nearest neighbours of one domain and that by chance, of other outputs of an encoder."""


def embeddings_page(
    diagnosis: EmbeddingDiagnosis,
    advice: Advice,
    *,
    name: str,
    measured: str = "embeddings",
    others: Domains = MappingProxyType({}),
) -> str:
    """A diagnosis of embeddings as self-contained HTML.

    Args:
        diagnosis: what :func:`~bayescl_lab.inspect.measures.diagnose_embeddings` returned.
        advice: what to do, the last of the findings.
        name: name of the embeddings.
        measured: what the embeddings are.
        others: domains among the nearest neighbours of other outputs.
    """
    settings = {
        "layout": diagnosis.layout,
        "temperature": diagnosis.temperature,
        "temperature from": diagnosis.temperature_from,
        "tau_plus": diagnosis.tau_plus,
        "tau_plus from": diagnosis.tau_plus_from,
    }
    section = Section(
        f"{name}: {diagnosis.items:,} embeddings",
        [f"Measured on {measured}.", paragraph("about_embeddings", diagnosis)],
        [batch_table(diagnosis, others), losses_table(diagnosis)],
        [*sentences(diagnosis), *advice_sentences(advice)],
        list(_pictures(diagnosis)),
        settings,
    )
    return page_of([section], "made from embeddings")


def batch_table(diagnosis: EmbeddingDiagnosis, others: Domains = MappingProxyType({})) -> Table:
    """The number of false negatives, how well they are found, and domains among the nearest."""
    false = f"{diagnosis.false_negatives:.1f} of {diagnosis.candidates}"
    by_chance = f"by chance {number(diagnosis.domain_by_chance, '.1%')}"
    nearest = "of the ten most similar candidates of each anchor"
    by_logit = diagnosis.losses["Bayesian"].by_logit
    by_similarity = number(by_logit and by_logit.roc_auc)
    is_known = diagnosis.tau_plus_from in _TAU_PLUS
    counted = (false, _TAU_PLUS[diagnosis.tau_plus_from]) if is_known else ("unknown", _UNKNOWN)
    rows = [
        ("false negatives of an anchor", *counted),
        ("their share, tau_plus", f"{diagnosis.tau_plus:.4f}" if is_known else "", ""),
        ("false among the nearest", number(diagnosis.nearest_false, ".1%"), nearest),
        ("of one domain among the nearest", number(diagnosis.nearest_domain, ".1%"), by_chance),
        *(
            (f"the same, {output}", f"{share:.1%}", f"by chance {chance:.1%}")
            for output, (share, chance) in others.items()
        ),
        ("found by similarity, ROC-AUC", by_similarity, "0.5: chance, 1: perfect"),
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


def advice_sentences(advice: Advice) -> list[str]:
    """What to do and why, in a few plain sentences."""
    names = ("advice", "copies", "popular", "domains", "temperature")
    return [text for name in names if (text := paragraph(name, advice))]


def sentences(diagnosis: EmbeddingDiagnosis) -> list[str]:
    """What the figures say."""
    paragraphs = (paragraph("repulsion", diagnosis.losses), paragraph("labels_wanted", diagnosis))
    return [text for text in paragraphs if text]


def _pictures(diagnosis: EmbeddingDiagnosis) -> Iterator[tuple[str, bytes]]:
    """Captions with PNG files."""
    caption = "The similarity of candidates, and the mean weight that each loss gives them."
    yield caption, png(similarity_figure(diagnosis), dpi=130)
    yield "Weights: Bayesian.", png(weights_figure(diagnosis.losses["Bayesian"]), dpi=130)

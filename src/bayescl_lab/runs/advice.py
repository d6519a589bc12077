"""Which loss embeddings ask for, and why: what ``bayescl inspect`` ends with.

What helps when is measured in docs/latent.md and docs/which-loss.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescl.axes import Tensor
from bayescl.diagnostics import EmbeddingDiagnosis, diagnose_embeddings
from bayescl.losses import LatentClassContrastiveLoss

LATENT = "latent classes"

Rows = NDArray[np.generic]

_FEW = 0.5  # false negatives of an anchor: fewer change nothing
_COLLAPSED = 1e-3  # variance of unit vectors: below, embeddings say nothing
_BY_CHANCE = 0.55  # share of candidates less similar than the positive: below, views are mixed up
_TRUSTED = 0.1  # trust from which latent classes are worth their cost
_HALVES = 0.4  # share of candidates in one class: above, classes may be halves of a cloud
_WRONG = 0.5  # precision of pairs: below, the classes found are not those of the labels
_OF_DOMAINS = 0.2  # share of neighbours of one domain beyond chance: above, domains matter
_COPIED = 0.01  # share of items with a copy from which groups are worth passing

_CAUTION = (
    " Trust cannot know whether you want these classes: a batch, device or speaker that both views "
    "show would cluster, too. Labels of a few hundred items (--labels) tell; name what you do not "
    "want with --domains."
)
_TEMPERATURE = (
    "Keep the temperature that the encoder was trained at. All figures assume {:g}: give the right "
    "one (--temperature)."
)


@dataclass(frozen=True)
class Advice:
    """A recommended loss, or the reason why there is none.

    Attributes:
        call: the loss and its arguments, as one writes it in Python; None if it cannot be told.
        sentences: what to do and why, in two or three plain sentences.
        pass_on: further arguments of each call of the loss, such as ``groups``.
    """

    call: str | None
    sentences: tuple[str, ...]
    pass_on: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)


def advise(
    diagnosis: EmbeddingDiagnosis,
    first: Rows,
    second: Rows | None = None,
    *,
    ids: Rows | None = None,
) -> Advice:
    """Recommend a loss for embeddings, or say what is missing to do so.

    Args:
        diagnosis: what :func:`~bayescl.diagnostics.diagnose_embeddings` returned.
        first: the embeddings that it was made from, ``[items, dim]``.
        second: their second view, if there is one.
        ids: what each row is of, -1 where unknown; default: equal rows of the last view are copies.
    """
    unknown = _why_unknown(diagnosis, first, second)
    if unknown is not None:
        return _unknown(unknown)
    call, because, pass_on = _choice(diagnosis)
    copies, more = _copies(diagnosis, first if second is None else second, ids)
    domains, of_domains = _domains(diagnosis)
    pass_on = tuple(dict.fromkeys((*pass_on, *copies, *domains)))
    more += of_domains
    if diagnosis.temperature_from == "default":
        more += (_TEMPERATURE.format(diagnosis.temperature),)
    if call is None:
        return _unknown(because, *more, pass_on=pass_on)
    called = " and ".join(f"{name}=" for name in pass_on)
    use = f"Use {call}, called with {called}" if pass_on else f"Use {call}"
    return Advice(call, (f"{use}. {because}".strip(), *more), pass_on)


def advise_on_views(
    first: Tensor, second: Tensor, labels: Tensor | None, temperature: float
) -> Advice:
    """Recommend a loss for two views of items, as a run embeds them; labels may be -1."""
    try:
        diagnosis = diagnose_embeddings(first, second, labels=labels, temperature=temperature)
    except ValueError as error:  # too few items, or labels of one class
        return _unknown(f"{error}.")
    return advise(diagnosis, first.cpu().numpy(), second.cpu().numpy())


def _unknown(because: str, *more: str, pass_on: tuple[str, ...] = ()) -> Advice:
    return Advice(None, (f"Cannot be told from this, because {because}", *more), pass_on)


def _why_unknown(diagnosis: EmbeddingDiagnosis, first: Rows, second: Rows | None) -> str | None:
    """What is wrong with embeddings that say nothing about any loss; None if they may."""
    for name, rows in (("the embeddings", first), ("those of the second view", second)):
        if rows is not None and (variance := _variance(rows)) < _COLLAPSED:
            return (
                f"{name} have collapsed: all point the same way (mean cosine {1 - variance:.4f}). "
                "Give me those of an encoder that has learnt."
            )
    if second is None:
        return None
    if bool(np.isclose(first, second, rtol=1e-5, atol=1e-7).all(axis=1).mean() > 0.99):
        return (
            "both views are the same, so they agree on anything. Give me the embeddings of two "
            "different augmentations, or of queries and their documents."
        )
    free = diagnosis.losses["Bayesian"].diagnosis.label_free
    if free is not None and free.auc < _BY_CHANCE:
        return (
            f"an item's second view is no closer to it than those of others ({free.auc:.0%} of "
            "comparisons; 50% would be chance). Give me both views in the same order, from an "
            "encoder that has begun to learn."
        )
    return None


def _choice(diagnosis: EmbeddingDiagnosis) -> tuple[str | None, str, tuple[str, ...]]:
    """The loss, the reason, and what each call takes; without a loss, what is missing."""
    is_given = diagnosis.temperature_from == "given"
    scale = f"temperature={diagnosis.temperature:g}" if is_given else ""
    by_default = diagnosis.tau_plus_from == "default"
    prior = None if by_default else diagnosis.tau_plus
    classes = ""
    if diagnosis.tau_plus_from == "given":
        classes = f"num_classes={1 / diagnosis.tau_plus:.0f}"
    aim, exact = "", ""
    if _are_pairs(diagnosis):
        aim, exact = 'aim="pairs"', ' With aim="pairs" the exact partner stays first.'
    arguments = ", ".join(filter(None, (classes, scale, aim)))
    plain, latent = f"InfoNCELoss({scale})", f"LatentClassContrastiveLoss({arguments})"
    false, of = diagnosis.false_negatives, f"of an anchor's {diagnosis.candidates} candidates"
    if false < _FEW and not by_default:
        few = f"Only {false:.2g} {of} are false negatives, too few to matter."
        return plain, f"{few} Tune its temperature first.", ()
    words, trusted = _latent_classes(diagnosis)
    if diagnosis.labelled_items == diagnosis.items and not aim:
        why = f"{false:.1f} {of} are false negatives, and the labels say which. {words}"
        if diagnosis.views == 2:
            why += f" If labels are only here to judge, use {latent if trusted else plain}."
        return f"SupervisedContrastiveLoss({scale})", why, ("groups",)
    if diagnosis.labelled:
        known = f"{diagnosis.labelled_items:,} of {diagnosis.items:,} labels are known"
        why = f"{known}, and they settle the pairs between them. {words}{exact}"
        return latent, why, ("labels",)
    if diagnosis.views == 1:
        why = (
            "one view does not show which classes survive augmentation. Give me a second view of "
            "each item (--second-view) or labels of a few hundred items (--labels)."
        )
        return None, why, ()
    if diagnosis.trust is None:
        needed = 2 * LatentClassContrastiveLoss(tau_plus=prior).memory.enough(prior)
        if diagnosis.items >= needed:
            return plain, f"{diagnosis.explanation}", ()
        few = f"{diagnosis.items:,} items are too few to look for classes"
        return None, f"{few}. Give me at least {needed:,}, or labels (--labels).", ()
    if not trusted:
        hope = "" if "by themselves" in words else " Ask again when the encoder knows more."
        return plain, f"{words}{hope}", ()
    if by_default and (diagnosis.found or 0) > _HALVES * diagnosis.candidates:
        why = (
            f"so few and large classes may be halves of a cloud. {words} Give me the "
            "number of classes (--num-classes), or labels of a few hundred items (--labels)."
        )
        return None, why, ()
    caution = _CAUTION if diagnosis.nearest_domain is None else ""
    return latent, f"{words}{exact}{caution}", ()


def _latent_classes(diagnosis: EmbeddingDiagnosis) -> tuple[str, bool]:
    """What became of latent classes, in words, and whether to use them without labels."""
    if diagnosis.trust is None:
        return "", False
    if diagnosis.trust < _TRUSTED and diagnosis.labelled:
        return "Beyond the labels, no classes are trusted.", False
    if diagnosis.trust < _TRUSTED:
        return f"Latent classes would change nothing. {diagnosis.explanation}", False
    pairs = diagnosis.losses[LATENT].diagnosis.confident
    if pairs is None or pairs.precision is None:
        return f"{diagnosis.explanation}", True
    right = f"{pairs.precision:.0%} of the pairs that would attract are of one label"
    if pairs.precision < _WRONG:
        return f"The classes found are not yours: {right}, of items kept out of the fit.", False
    return f"{diagnosis.explanation} Of items kept out of the fit, {right}.", True


def _domains(diagnosis: EmbeddingDiagnosis) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to pass because of domains, and why."""
    nearest, chance = diagnosis.nearest_domain, diagnosis.domain_by_chance
    if nearest is None or chance is None:
        return (), ()
    explain = f"{nearest:.0%} of the nearest neighbours ({chance:.0%} by chance)"
    if nearest - chance < _OF_DOMAINS * (1 - chance):
        return (), (f"Domains matter little: they explain {explain}.",)
    why = (
        f"Domains explain {explain}: pass domains=, and candidates are of the anchor's own domain."
    )
    return ("domains",), (why,)


def _are_pairs(diagnosis: EmbeddingDiagnosis) -> bool:
    """Whether each item's second view is its exact partner, to be retrieved."""
    return diagnosis.views == 2 and diagnosis.layout == "in_batch"


def _copies(
    diagnosis: EmbeddingDiagnosis, rows: Rows, ids: Rows | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to pass because of items that occur more than once, and why."""
    if ids is None:
        ids = np.array([hash(row.tobytes()) for row in np.ascontiguousarray(rows)])
    else:
        ids = np.where(ids < 0, -1 - np.arange(len(ids)), ids)  # unknown ones are alone
    counts = np.unique(ids, return_counts=True)[1]
    copied = counts[counts > 1].sum() / len(rows)
    if copied < _COPIED:
        return (), ()
    kind = "documents" if _are_pairs(diagnosis) else "items"
    why = f"{copied:.0%} of the {kind} occur more than once: groups=ids leaves copies out."
    # The number of equally frequent items that would meet as often; half of all for a random draw.
    effective = len(rows) ** 2 / (counts**2).sum()
    if kind == "items" or effective >= len(counts) / 2:
        return ("groups",), (why,)
    popular = (
        f"Some are far more frequent than others (one makes {counts.max() / len(rows):.1%} of all "
        "pairs), so popular documents are repelled too often: log_q=, the log of each document's "
        "frequency, corrects for that."
    )
    return ("groups", "log_q"), (why, popular)


def _variance(rows: Rows) -> float:
    """Mean squared distance of unit vectors from their mean: 1 less the mean cosine."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    return float(unit.var(axis=0, dtype=np.float64).sum())

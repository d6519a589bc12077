"""Which loss embeddings ask for, and why: what ``bayescl inspect`` ends with.

What helps when is measured in docs/latent.md and docs/which-loss.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescl.diagnostics import EmbeddingDiagnosis, diagnose_embeddings
from bayescl.losses import LatentClassContrastiveLoss

LATENT = "latent classes"

Rows = NDArray[np.generic]

_FEW = 0.5
"""Fewer false negatives of an anchor than this change nothing."""

_COLLAPSED = 1e-3
"""Variance of unit vectors below which embeddings say nothing."""

_BY_CHANCE = 0.55
"""Share of candidates less similar than the positive, below which views seem mixed up."""

_TRUSTED = 0.1
"""Trust from which latent classes are worth their cost."""

_HALVES = 0.4
"""Share of candidates in one class that may mean halves of a cloud without classes."""

_WRONG = 0.5
"""Precision of pairs below which the classes found are not those of the labels."""

_COPIED = 0.01
"""Share of items with a copy from which groups are worth passing."""


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


def advise(found: EmbeddingDiagnosis, first: Rows, second: Rows | None = None) -> Advice:
    """Recommend a loss for embeddings, or say what is missing to do so.

    Args:
        found: what :func:`~bayescl.diagnostics.diagnose_embeddings` returned.
        first: the embeddings that it was made from, ``[items, dim]``.
        second: their second view, if there is one.
    """
    unknown = _why_unknown(found, first, second)
    if unknown is not None:
        return Advice(None, (f"Cannot be told from this, because {unknown}",))
    call, because, pass_on = _choice(found)
    copies, more = _copies(found, first if second is None else second)
    pass_on = (*pass_on, *copies)
    if call is None:
        return Advice(None, (f"Cannot be told from this, because {because}", *more), pass_on)
    use = f"Use {call}"
    if pass_on:
        use += f", called with {' and '.join(f'{name}=' for name in pass_on)}"
    return Advice(call, (f"{use}. {because}".strip(), *more), pass_on)


def advise_on_views(first: Rows, second: Rows, labels: Rows | None, temperature: float) -> Advice:
    """Recommend a loss for two views of items, as a run embeds them; labels may be -1."""
    try:
        found = diagnose_embeddings(first, second, labels=labels, temperature=temperature)
    except ValueError as error:  # too few items, or labels of one class
        return Advice(None, (f"Cannot be told from this, because {error}.",))
    return advise(found, first, second)


def _why_unknown(found: EmbeddingDiagnosis, first: Rows, second: Rows | None) -> str | None:
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
    free = found.losses["Bayesian"].diagnosis.label_free
    if free is not None and free.auc < _BY_CHANCE:
        return (
            f"an item's second view is no closer to it than those of others ({free.auc:.0%} of "
            "comparisons; 50% would be chance). Give me both views in the same order, from an "
            "encoder that has begun to learn."
        )
    return None


def _choice(found: EmbeddingDiagnosis) -> tuple[str | None, str, tuple[str, ...]]:
    """The loss, the reason, and what each call takes; without a loss, what is missing."""
    pairs = found.views == 2 and found.layout == "in_batch"
    false = f"{found.false_negatives:.1f} of an anchor's {found.candidates} candidates"
    plain = f"InfoNCELoss(temperature={found.temperature:g})"
    if found.false_negatives < _FEW and found.tau_plus_from != "default":
        few = f"{found.false_negatives:.2g} of an anchor's {found.candidates} candidates"
        why = f"Only {few} are false negatives, too few to matter. Tune its temperature first."
        return plain, why, ()
    classes = ""
    if found.tau_plus_from == "given":
        classes = f"num_classes={1 / found.tau_plus:.0f}, "
    aim = ', aim="pairs"' if pairs else ""
    latent = f"LatentClassContrastiveLoss({classes}temperature={found.temperature:g}{aim})"
    found_classes, trusted = _latent_classes(found)
    if found.labelled and found.labelled_items == found.items and not pairs:
        why = f"{false} are false negatives, and the labels say which. {found_classes}"
        if found.views == 2:
            instead = latent if trusted else plain
            why += f" If labels are only here to judge, use {instead}."
        call = f"AttractingOracleContrastiveLoss(temperature={found.temperature:g})"
        return call, why, ("groups",)
    if found.labelled:
        known = f"{found.labelled_items:,} of {found.items:,} labels are known"
        why = f"{known}, and they settle the pairs between them. {found_classes}{_exact(pairs)}"
        return latent, why, ("labels",)
    if found.views == 1:
        why = (
            "one view does not show which classes survive augmentation. Give me a second view of "
            "each item (--second-view) or labels of a few hundred items (--labels)."
        )
        return None, why, ()
    if found.trust is None:
        prior = None if found.tau_plus_from == "default" else found.tau_plus
        needed = 2 * LatentClassContrastiveLoss(tau_plus=prior).memory.enough(prior)
        if found.items < needed:
            why = (
                f"{found.items:,} items are too few to look for classes. Give me at least "
                f"{needed:,}, or labels (--labels)."
            )
            return None, why, ()
        return plain, f"{found.explanation}", ()
    if not trusted:
        hope = "" if "by themselves" in found_classes else " Ask again when the encoder knows more."
        return plain, f"{found_classes}{hope}", ()
    if (
        found.tau_plus_from == "default"
        and found.found is not None
        and found.found > _HALVES * found.candidates
    ):
        why = (
            f"so few and large classes may be halves of a cloud. {found.explanation} Give me the "
            "number of classes (--num-classes), or labels of a few hundred items (--labels)."
        )
        return None, why, ()
    return latent, f"{found_classes}{_exact(pairs)}", ()


def _latent_classes(found: EmbeddingDiagnosis) -> tuple[str, bool]:
    """What became of latent classes, in words, and whether to use them without labels."""
    if found.trust is None or found.explanation is None:
        return "", False
    if found.trust < _TRUSTED or found.found is None:
        return f"Latent classes would change nothing. {found.explanation}", False
    pairs = found.losses[LATENT].diagnosis.confident
    words = found.explanation
    if pairs is not None and pairs.precision is not None:
        right = f"{pairs.precision:.0%} of the pairs that would attract are of one label"
        if pairs.precision < _WRONG:
            return f"The classes found without labels are not yours: {right}.", False
        return f"{words} On labels, {right}.", True
    return f"{words} They expect {found.found:.1f} false negatives of an anchor.", True


def _exact(pairs: bool) -> str:
    """What the aim does, where exact pairs are to be retrieved."""
    return ' With aim="pairs" the exact partner stays first.' if pairs else ""


def _copies(found: EmbeddingDiagnosis, rows: Rows) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to pass because of items that occur more than once, and why."""
    counts = Counter(hash(row.tobytes()) for row in np.ascontiguousarray(rows))
    copied = sum(count for count in counts.values() if count > 1) / len(rows)
    if copied < _COPIED:
        return (), ()
    pairs = found.views == 2 and found.layout == "in_batch"
    kind = "documents" if pairs else "items"
    because = [f"{copied:.0%} of the {kind} occur more than once: groups=ids leaves copies out."]
    # The number of equally frequent items that would meet as often; half of all for a random draw.
    effective = len(rows) ** 2 / sum(count**2 for count in counts.values())
    if pairs and effective < len(counts) / 2:
        most = max(counts.values()) / len(rows)
        because.append(
            f"Some are far more frequent than others (one makes {most:.1%} of all pairs), so "
            "popular documents are repelled too often: log_q=, the log of each document's "
            "frequency, corrects for that."
        )
        return ("groups", "log_q"), tuple(because)
    return ("groups",), tuple(because)


def _variance(rows: Rows) -> float:
    """Mean squared distance of unit vectors from their mean: 1 less the mean cosine."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    return float(unit.var(axis=0, dtype=np.float64).sum())

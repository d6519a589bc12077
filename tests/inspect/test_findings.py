"""What ``bayescl inspect`` recommends in situations whose truth is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import bayescl
from bayescl_lab.inspect.findings import Advice, advise
from bayescl_lab.inspect.measures import diagnose_embeddings
from bayescl_lab.inspect.page import sentences

Rows = np.ndarray[Any, Any]


@dataclass
class Situation:
    """Embeddings, and what one knows of them."""

    first: Rows
    second: Rows | None = None
    labels: Rows | None = None
    ids: Rows | None = None
    domains: Rows | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def advice(self) -> Advice:
        codes = {"labels": self.labels, "groups": self.ids, "domains": self.domains}
        given = {"temperature": 0.5, "batch_size": 128, "items": 256, **codes, **self.options}
        found = diagnose_embeddings(self.first, self.second, **given)
        return advise(found, self.first, self.second, ids=self.ids)


def items(classes: int = 10, count: int = 1000, within: float = 0.5) -> tuple[Rows, Rows]:
    """Items in classes that are clear, and their classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % classes
    centers = generator.normal(size=(classes, 32))
    return centers[labels] + within * generator.normal(size=(count, 32)), labels


def view(rows: Rows, seed: int, noise: float = 0.2) -> Rows:
    return rows + noise * np.random.default_rng(seed).normal(size=rows.shape)


def views(rows: Rows, **known: Any) -> Situation:
    return Situation(view(rows, 1), view(rows, 2), **known)


def some(labels: Rows, known: int) -> Rows:
    """Labels of the first items only."""
    return np.where(np.arange(len(labels)) < known, labels, -1)


def popular(skew: float) -> Situation:
    """Queries and documents; with skew, few documents answer many queries."""
    generator = np.random.default_rng(5)
    documents, _ = items(count=800)
    share = np.arange(1, 801) ** -skew
    chosen = documents[generator.choice(800, size=1000, p=share / share.sum())]
    return Situation(view(chosen, 1), chosen, options={"layout": "in_batch"})


def in_batches(labels: bool, count: int = 4) -> Situation:
    """Items of ten classes that lie far apart by the batch that they were measured in."""
    generator = np.random.default_rng(7)
    batch = generator.integers(count, size=1000)
    moved = CLEAR + 3 * generator.normal(size=(count, 32))[batch]
    return views(moved, domains=batch, labels=CLASSES if labels else None)


CLOUD = np.random.default_rng(1).normal(size=(1000, 32))
CLEAR, CLASSES = items()
IN_BATCH = {"layout": "in_batch"}

PLAIN = "InfoNCELoss"
BAYESIAN = "BayesianContrastiveLoss(temperature=0.5"
FEW, TWICE = "too few to matter", "occur more than once"

SITUATIONS: dict[str, tuple[Callable[[], Situation], str | None, tuple[str, ...], str]] = {
    # situation: embeddings, loss, what each call takes, words of the reason
    "two views": (
        lambda: views(CLEAR),
        BAYESIAN,
        ("teacher",),
        "teacher: embeddings of the unaug",
    ),
    "one view": (lambda: Situation(CLEAR), BAYESIAN, ("teacher",), "candidates are similar"),
    "domains that cluster": (
        lambda: views(CLEAR, domains=CLASSES),
        BAYESIAN,
        ("domains", "teacher"),
        "of the nearest neighbors are of the item's own domain, 10% by chance",
    ),
    "domains that do not": (
        lambda: views(CLOUD, domains=np.arange(1000) % 4),
        BAYESIAN,
        ("teacher",),
        "Domains matter little",
    ),
    "many small batches that cluster": (
        lambda: in_batches(labels=False, count=50),
        BAYESIAN,
        ("domains", "teacher"),
        "draw them with DomainBatchSampler",
    ),
    "batches that cluster, and labels": (
        lambda: in_batches(labels=True),
        BAYESIAN,
        ("domains", "labels", "teacher"),
        "100% of the nearest neighbors are of the item's own domain",
    ),
    "ids of documents": (
        lambda: views(CLEAR, ids=np.arange(1000) // 2, options=IN_BATCH),
        BAYESIAN,
        ("groups", "teacher"),
        "100% of the documents occur more than once",
    ),
    "labels of a few": (
        lambda: views(CLEAR, labels=some(CLASSES, 100)),
        BAYESIAN,
        ("labels", "teacher"),
        "100 of 1,000 labels are known",
    ),
    "labels of all": (
        lambda: views(CLEAR, labels=CLASSES),
        f"{BAYESIAN}, tau_plus=0.099, alpha=1, positive_share=0.1)",
        ("labels", "teacher"),
        "Leave it out if labels are only for evaluation",
    ),
    "copies": (
        lambda: Situation(*(np.repeat(view(CLEAR, seed), 2, axis=0) for seed in (1, 2))),
        BAYESIAN,
        ("groups", "teacher"),
        TWICE,
    ),
    "labels of very many classes": (
        lambda: views(CLOUD, labels=np.arange(1000) // 2),
        PLAIN,
        (),
        FEW,
    ),
    "popular documents": (
        lambda: popular(0.8),
        BAYESIAN,
        ("groups", "log_q", "teacher"),
        "Rare documents pay for the correction: compare",
    ),
    "documents drawn evenly": (lambda: popular(0.0), BAYESIAN, ("groups", "teacher"), TWICE),
    "collapsed": (
        lambda: Situation(1 + 1e-3 * CLOUD, 1 + 1e-3 * view(CLOUD, 1)),
        None,
        (),
        "has not collapsed",
    ),
    "a view beside itself": (lambda: Situation(CLEAR, CLEAR), None, (), "both views are the same"),
    "views in another order": (
        lambda: Situation(view(CLOUD, 1), view(CLOUD, 2)[::-1].copy()),
        None,
        (),
        "in the same order",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_one_recommendation_is_right_or_says_what_is_missing(name: str) -> None:
    make, loss, pass_on, words = SITUATIONS[name]
    advice = make().advice()
    lines = sentences(advice)
    text = " ".join(lines)
    assert advice.pass_on == pass_on, text
    assert words in text
    assert "Recommendation: " in lines[-1]
    assert text.count("Recommendation: ") == 1
    assert len(text) < 1000
    if loss is None:
        assert advice.loss is None, text
    else:
        assert advice.loss is not None, text
        assert advice.loss.startswith(loss)
        assert f"use loss = {advice.loss}, called as {advice.call}" in text
        loss = eval(f"bayescl.{advice.loss}", {"bayescl": bayescl})
        method = loss.in_batch if advice.diagnosis.are_pairs else loss.forward
        assert set(advice.pass_on) <= set(inspect.signature(method).parameters)


SCALES = [(1e19, "f4"), (1e38, "f4"), (1e-23, "f4"), (1e-37, "f4"), (1e200, "f8"), (1e-200, "f8")]


@pytest.mark.parametrize(("scale", "dtype"), SCALES)
def test_advice_does_not_depend_on_the_length_of_rows(scale: float, dtype: str) -> None:
    rows = np.stack([view(CLEAR, 1), view(CLEAR, 2)])
    rows /= np.abs(rows).max()
    expected = Situation(*rows.astype("f4")).advice()
    found = Situation(*(rows * scale).astype(dtype)).advice()
    assert found.figures() == expected.figures()
    assert found.loss == f"{BAYESIAN})"
    flat = 1 + 1e-3 * CLOUD / np.abs(CLOUD).max()
    assert Situation((flat * scale).astype(dtype)).advice().loss is None


@pytest.mark.parametrize(
    ("known", "share"),
    [
        ({"labels": CLASSES}, 0.1),
        ({"labels": CLASSES, "options": IN_BATCH}, 0.5),
        ({"labels": np.random.default_rng(0).permutation(CLASSES)}, 0.5),
        ({"labels": np.arange(1000) // 10}, 0.5),
        ({"labels": CLASSES, "domains": CLASSES}, 0.5),
        ({}, 0.5),
    ],
    ids=["few classes", "pairs", "not told apart", "many classes", "nuisance", "no labels"],
)
def test_a_small_share_needs_many_false_negatives_that_are_easily_found(known, share) -> None:
    advice = views(CLEAR, **known).advice()
    assert advice.share == share
    assert (f"positive_share={share:g}" in advice.loss) == ("labels" in known)
    explained = "positive_share: small, because" in " ".join(sentences(advice))
    assert explained == (share == 0.1)


def test_a_temperature_is_asked_for_only_where_a_loss_is_recommended() -> None:
    for rows, is_asked in ((CLEAR, True), (1 + 1e-3 * CLOUD, False)):
        advice = advise(diagnose_embeddings(rows), rows)
        assert ("--temperature" in " ".join(sentences(advice))) == is_asked

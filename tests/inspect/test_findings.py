"""What ``bayescl inspect`` recommends in situations whose truth is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayescl
from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.findings import Advice, advise
from bayescl_lab.inspect.measures import diagnose_embeddings
from bayescl_lab.inspect.page import sentences

Rows = np.ndarray[Any, Any]


def advice_of(arrays: EmbeddingArrays) -> Advice:
    known = {name: getattr(arrays, name) for name in ("labels", "groups", "domains", "are_pairs")}
    found = diagnose_embeddings(arrays.embeddings, arrays.second_view, **known)
    return advise(found, arrays)


def items(classes: int = 10, count: int = 1000, within: float = 0.5) -> tuple[Rows, Rows]:
    """Items in classes that are clear, and their classes."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % classes
    centers = generator.normal(size=(classes, 32))
    return centers[labels] + within * generator.normal(size=(count, 32)), labels


def view(rows: Rows, seed: int, noise: float = 0.2) -> Rows:
    return rows + noise * np.random.default_rng(seed).normal(size=rows.shape)


def views(rows: Rows, **known: Any) -> EmbeddingArrays:
    return EmbeddingArrays(view(rows, 1), view(rows, 2), **known)


def some(labels: Rows, known: int) -> Rows:
    """Labels of the first items only."""
    return np.where(np.arange(len(labels)) < known, labels, -1)


def in_batches(labels: Rows | None = None, count: int = 4) -> EmbeddingArrays:
    """Items of ten classes that lie far apart by the batch that they were measured in."""
    generator = np.random.default_rng(7)
    batch = generator.integers(count, size=1000)
    moved = CLEAR + 3 * generator.normal(size=(count, 32))[batch]
    return views(moved, domains=batch, labels=labels)


CLOUD = np.random.default_rng(1).normal(size=(1000, 32))
CLEAR, CLASSES = items()

PLAIN = "InfoNCELoss(temperature=0.2)"
SMALL = "InfoNCELoss(temperature=0.2, positive_share=0.2)"
PAIRS = "InfoNCELoss(temperature=0.1, positive_share=0.8)"
ALL = "SupervisedContrastiveLoss()"
TWICE = "occur more than once"
Made = Callable[[], EmbeddingArrays]

SITUATIONS: dict[str, tuple[Made, str | None, tuple[str, ...], str]] = {
    # situation: embeddings, loss, arguments of each call, words of the reason
    "two views": (lambda: views(CLEAR), PLAIN, ("teacher",), "teacher: embeddings of the unaug"),
    "one view": (
        lambda: EmbeddingArrays(CLEAR),
        PLAIN,
        ("teacher",),
        "Without labels the number of false negatives is unknown",
    ),
    "pairs": (
        lambda: views(CLEAR, are_pairs=True),
        PAIRS,
        ("teacher",),
        "positive_share: large, because",
    ),
    "domains that cluster": (
        lambda: views(CLEAR, domains=CLASSES),
        PLAIN,
        ("domains", "teacher"),
        "of the nearest neighbors are of the item's own domain, 10% by chance",
    ),
    "domains that do not": (
        lambda: views(CLOUD, domains=np.arange(1000) % 4),
        PLAIN,
        ("teacher",),
        "Domains matter little",
    ),
    "many small batches that cluster": (
        lambda: in_batches(count=50),
        PLAIN,
        ("domains", "teacher"),
        "draw them with DomainBatchSampler",
    ),
    "batches that cluster, and some labels": (
        lambda: in_batches(some(CLASSES, 500)),
        PLAIN,
        ("domains", "labels", "teacher"),
        "100% of the nearest neighbors are of the item's own domain",
    ),
    "batches that cluster, and all labels": (
        lambda: in_batches(CLASSES),
        ALL,
        ("labels",),
        f"evaluation, use loss = {PLAIN}, called as loss(view_1, view_2, domains=domains, teacher=",
    ),
    "ids of documents": (
        lambda: views(CLEAR, groups=np.arange(1000) // 2, are_pairs=True),
        PAIRS,
        ("groups", "teacher"),
        "100% of the documents occur more than once",
    ),
    "labels of a few": (
        lambda: views(CLEAR, labels=some(CLASSES, 100)),
        SMALL,
        ("labels", "teacher"),
        "100 of 1,000 labels are known",
    ),
    "labels of all": (
        lambda: views(CLEAR, labels=CLASSES),
        ALL,
        ("labels",),
        f"evaluation, use loss = {SMALL}, called as loss(view_1, view_2, teacher=plain)",
    ),
    "copies": (
        lambda: EmbeddingArrays(*(np.repeat(view(CLEAR, seed), 2, axis=0) for seed in (1, 2))),
        PLAIN,
        ("groups", "teacher"),
        TWICE,
    ),
    "labels of very many classes": (
        lambda: views(CLOUD, labels=np.arange(1000) * 2 // 3),
        "InfoNCELoss()",
        (),
        "too few to matter",
    ),
    "collapsed": (
        lambda: EmbeddingArrays(1 + 1e-3 * CLOUD, 1 + 1e-3 * view(CLOUD, 1)),
        None,
        (),
        "has not collapsed",
    ),
    "views in another order": (
        lambda: EmbeddingArrays(view(CLOUD, 1), view(CLOUD, 2)[::-1].copy()),
        None,
        (),
        "in the same order",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_one_recommendation_is_right_or_says_what_is_missing(name: str) -> None:
    make, loss, pass_on, words = SITUATIONS[name]
    advice = advice_of(make())
    lines = sentences(advice)
    text = " ".join(lines)
    assert (advice.loss, advice.pass_on) == (loss, pass_on), text
    assert words in text
    assert "Recommendation: " in lines[-1]
    assert text.count("Recommendation: ") == 1
    assert len(text) < 1000
    if loss is not None:
        assert f"use loss = {advice.loss}, called as {advice.call}" in lines[-1]
        loss = eval(f"bayescl.{advice.loss}", {"bayescl": bayescl})
        method = loss.in_batch if advice.diagnosis.are_pairs else loss.forward
        assert set(advice.pass_on) <= set(inspect.signature(method).parameters)


SCALES = [(1e19, "f4"), (1e38, "f4"), (1e-23, "f4"), (1e-37, "f4"), (1e200, "f8"), (1e-200, "f8")]


@pytest.mark.parametrize(("scale", "dtype"), SCALES)
def test_advice_does_not_depend_on_the_length_of_rows(scale: float, dtype: str) -> None:
    rows = np.stack([view(CLEAR, 1), view(CLEAR, 2)])
    rows /= np.abs(rows).max()
    expected = advice_of(EmbeddingArrays(*rows.astype("f4")))
    found = advice_of(EmbeddingArrays(*(rows * scale).astype(dtype)))
    assert found.figures() == expected.figures()
    assert found.loss == PLAIN
    flat = 1 + 1e-3 * CLOUD / np.abs(CLOUD).max()
    assert advice_of(EmbeddingArrays((flat * scale).astype(dtype))).loss is None


@pytest.mark.parametrize(
    ("known", "share"),
    [
        ({"labels": CLASSES}, 0.2),
        ({"labels": np.random.default_rng(0).permutation(CLASSES)}, 0.5),
        ({"labels": np.arange(1000) // 10}, 0.5),
        ({"labels": CLASSES, "domains": CLASSES}, 0.5),
    ],
    ids=["few classes", "not told apart", "many classes", "nuisance"],
)
def test_a_small_share_needs_many_false_negatives_that_are_easily_found(known, share) -> None:
    known["labels"] = some(known["labels"], 900)
    advice = advice_of(views(CLEAR, **known))
    assert advice.share == share
    assert ("positive_share: small, because" in " ".join(sentences(advice))) == (share == 0.2)

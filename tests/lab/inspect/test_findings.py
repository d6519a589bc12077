"""What ``bayescl inspect`` recommends in situations whose truth is known."""

from __future__ import annotations

import inspect
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

PLAIN, NUISANCE = "InfoNCELoss(temperature=0.2)", "InfoNCELoss(temperature=0.5)"
SMALL = "InfoNCELoss(temperature=0.2, positive_share=0.2)"
PAIRS = "InfoNCELoss(temperature=0.1)"
LABELED_PAIRS = "InfoNCELoss(temperature=0.1, positive_share=0.8)"
ALL = "SupervisedContrastiveLoss()"
WITHOUT = "evaluation, use loss = "
CALL = ", called as loss(view_1, view_2, "
COPIES = EmbeddingArrays(*(np.repeat(view(CLEAR, seed), 2, axis=0) for seed in (1, 2)))
MIXED_UP = EmbeddingArrays(view(CLOUD, 1), view(CLOUD, 2)[::-1].copy())
TWICE = np.arange(1000) // 2

SITUATIONS: dict[str, tuple[EmbeddingArrays, str | None, str, str]] = {
    # situation: embeddings, loss, arguments of each call, words of the reason
    "two views": (views(CLEAR), PLAIN, "teacher", "teacher: embeddings of the unaugmented"),
    "one view": (EmbeddingArrays(CLEAR), PLAIN, "teacher", "Without labels the number of false"),
    "pairs": (views(CLEAR, are_pairs=True), PAIRS, "", "Without labels the number of false"),
    "pairs with labels": (
        views(CLEAR, labels=some(CLASSES, 500), are_pairs=True),
        LABELED_PAIRS,
        "labels",
        "positive_share: large, because",
    ),
    "domains": (
        views(CLEAR, domains=CLASSES),
        NUISANCE,
        "domains",
        "own domain, 10% by chance",
    ),
    "possible domains": (
        views(CLEAR, by=("device", "day")),
        PLAIN,
        "teacher",
        "The file also has device, day: if one of them is a nuisance",
    ),
    "no domains": (views(CLOUD, domains=TWICE % 4), PLAIN, "teacher", "Domains matter little"),
    "small batches": (in_batches(count=50), NUISANCE, "domains", "with DomainBatchSampler"),
    "batches and some labels": (
        in_batches(some(CLASSES, 500)),
        NUISANCE,
        "domains labels",
        "Compare with SupervisedContrastiveLoss() on the labeled items alone",
    ),
    "batches and all labels": (
        in_batches(CLASSES),
        ALL,
        "labels",
        f"{WITHOUT}{NUISANCE}{CALL}domains=domains)",
    ),
    "ids of documents": (
        views(CLEAR, groups=TWICE, are_pairs=True),
        PAIRS,
        "groups",
        "100% of the documents occur more than once",
    ),
    "few labels": (views(CLEAR, labels=some(CLASSES, 99)), SMALL, "labels teacher", "99 of 1,000"),
    "labels": (views(CLEAR, labels=CLASSES), ALL, "labels", f"{WITHOUT}{SMALL}{CALL}teacher="),
    "copies": (COPIES, PLAIN, "groups teacher", "100% of the items occur more than once"),
    "many classes": (
        views(CLOUD, labels=np.arange(1000) * 2 // 3),
        "InfoNCELoss()",
        "",
        "too few to matter",
    ),
    "collapsed": (EmbeddingArrays(1 + 1e-3 * CLOUD), None, "", "has not collapsed"),
    "views in another order": (MIXED_UP, None, "", "in the same order"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_one_recommendation_is_right_or_says_what_is_missing(name: str) -> None:
    arrays, loss, pass_on, words = SITUATIONS[name]
    advice = advice_of(arrays)
    lines = sentences(advice)
    text = " ".join(lines)
    assert (advice.loss, " ".join(advice.pass_on)) == (loss, pass_on), text
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


def test_copies_are_counted_in_collapsed_embeddings_too() -> None:
    rows = np.ones((40, 3), np.float32)
    advice = advice_of(EmbeddingArrays(rows))
    assert (advice.copied, advice.loss) == (1.0, None)

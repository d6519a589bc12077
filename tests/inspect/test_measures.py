from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from bayescl.estimation import tau_plus_of_labels
from bayescl_lab._figures import png
from bayescl_lab.inspect.measures import EmbeddingDiagnosis, diagnose_embeddings, plain
from bayescl_lab.inspect.page import similarity_figure
from bayescl_lab.runs.losses import LOSSES


@pytest.fixture(scope="module")
def clusters() -> tuple[torch.Tensor, ...]:
    """Two views of 600 items in six classes that are easy to tell, and their labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 6
    centers = torch.randn(6, 12, generator=generator)
    items = centers[labels] + 0.6 * torch.randn(600, 12, generator=generator)
    noise = 0.2 * torch.randn(2, 600, 12, generator=generator)
    return items + noise[0], items + noise[1], labels


@pytest.fixture(scope="module")
def labeled(clusters) -> EmbeddingDiagnosis:
    first, second, labels = clusters
    return diagnose_embeddings(first, second, labels=labels, batch_size=100)


def test_a_batch_holds_as_many_false_negatives_as_labels_say(clusters) -> None:
    first, second, labels = clusters
    few = diagnose_embeddings(first[:4], second[:4], labels=torch.tensor([0, 0, 1, 2]))
    assert (few.batches, few.batch_size, few.candidates) == (1, 4, 6)
    found = diagnose_embeddings(first, second, labels=labels, batch_size=100, items=300)
    assert (found.items, found.dim, found.views) == (600, 12, 2)
    assert (found.batches, found.batch_size, found.candidates) == (3, 100, 198)
    assert found.tau_plus == pytest.approx(tau_plus_of_labels(labels))
    assert found.false_negatives == pytest.approx(198 * 99 / 599)
    counted = found.losses["InfoNCE"].measured_tau_plus
    assert counted == pytest.approx(found.tau_plus, abs=0.01)


def test_easy_classes_are_told_by_similarity(labeled) -> None:
    found = labeled
    shares = {name: loss.false_share for name, loss in found.losses.items()}
    assert shares["oracle"] == 0
    assert shares["Bayesian"] < shares["InfoNCE"] < shares["hard"]
    assert found.nearest_false > 0.9
    told = [found.losses[name].by_weight.roc_auc for name in ("Bayesian", "InfoNCE")]
    assert told[0] > 0.9 > told[1] == 0.5
    assert set(found.losses) <= {row.title for row in LOSSES.values()}


def test_labels_only_judge(clusters, labeled) -> None:
    first, second, _ = clusters
    same = diagnose_embeddings(first, second, tau_plus=1 / 6, batch_size=100)
    assert (labeled.tau_plus_from, same.tau_plus_from) == ("labels", "given")
    for name, loss in same.losses.items():
        assert loss.false_share is None
        others = (each.losses[name].effective.in_gradient for each in (same, labeled))
        assert next(others) == pytest.approx(next(others), rel=0.01)


def test_one_view_is_scored_against_the_other_items_of_its_batch(clusters) -> None:
    first, _, labels = clusters
    found = diagnose_embeddings(first, labels=labels, batch_size=100)
    assert (found.views, found.layout, found.candidates) == (1, "in_batch", 99)
    assert all(loss.label_free is None for loss in found.losses.values())


def test_only_items_with_a_label_are_scored(clusters) -> None:
    first, second, labels = clusters
    some = torch.where(torch.arange(600) % 3 == 0, labels, -1)
    found = diagnose_embeddings(first, second, labels=some, batch_size=100)
    assert (found.batches, found.batch_size, found.labeled_items) == (2, 100, 200)
    assert found.tau_plus == pytest.approx(tau_plus_of_labels(some[some >= 0]))
    # All labels different: there are no false negatives.
    found = diagnose_embeddings(first, second, labels=torch.arange(600), batch_size=100)
    assert (found.tau_plus, found.false_negatives, found.nearest_false) == (0, 0, 0)
    assert found.losses["Bayesian"].false_share == 0


def test_copies_are_no_candidates_and_domains_are_counted_among_neighbors(clusters) -> None:
    first, second, labels = clusters
    ids = torch.arange(600) // 2
    found = diagnose_embeddings(first, second, groups=ids, domains=labels, batch_size=100)
    alone = diagnose_embeddings(first, second, groups=torch.full((600,), -1), batch_size=100)
    assert found.losses["InfoNCE"].effective.candidates < 198
    assert alone.losses["InfoNCE"].effective.candidates == 198
    assert found.neighborhood.same_domain > 0.9
    assert found.neighborhood.by_chance == pytest.approx(99 / 599)
    random = torch.randint(3, (600,), generator=torch.Generator().manual_seed(0))
    assert diagnose_embeddings(first, domains=random).neighborhood.domain_explains < 0.03
    assert alone.neighborhood.same_domain is None


def test_figures_are_plain_numbers_the_same_each_time_and_at_any_scale(clusters, labeled) -> None:
    first, second, labels = clusters
    again = diagnose_embeddings(first, second, labels=labels, batch_size=100)
    texts = [json.dumps(plain(found), allow_nan=False) for found in (labeled, again)]
    assert texts[0] == texts[1]
    assert png(similarity_figure(labeled)) == png(similarity_figure(again))
    without = diagnose_embeddings(first, batch_size=100)
    assert png(similarity_figure(without)).startswith(b"\x89PNG")
    other = diagnose_embeddings(
        1e-3 * first.double().numpy(), 1e3 * second, labels=labels.numpy(), batch_size=100
    )
    assert other.false_negatives == labeled.false_negatives


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (torch.zeros(3, 2), {}, r"embeddings must have at least 4 rows, got 3"),
        (torch.zeros(8), {}, r"embeddings must have shape \[items, dim\], got \[8\]"),
        (np.zeros((8, 2), dtype=bool), {}, "must hold real numbers"),
        (torch.ones(8, 2).index_fill(0, torch.tensor([3, 5]), torch.nan), {}, "2 of 8 rows.*row 3"),
        (torch.ones(8, 2), {"second_view": torch.ones(7, 2)}, r"second_view must have shape \[8"),
        (torch.ones(8, 2), {"labels": torch.arange(7)}, r"labels must have shape \[8\]"),
        (
            torch.ones(8, 2),
            {"labels": torch.arange(8) - 2},
            "labels must be at least -1, which means unknown, got -2",
        ),
        (torch.ones(8, 2), {"labels": -torch.ones(8).long()}, "known for at least 2 items, got 0"),
        (torch.ones(8, 2), {"groups": torch.arange(8) - 2}, "groups must be at least -1, which"),
        (torch.ones(9, 2), {"domains": torch.arange(9)}, "domains must be known for more than 10"),
        (torch.ones(8, 2), {"layout": "sampled"}, "layout must be one of two_views, in_batch"),
    ],
)
def test_what_makes_no_sense_is_refused(given, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose_embeddings(given, **options)


def test_collapse_dimension_and_hubs_need_no_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    cloud = torch.randn(2000, 16, generator=generator)
    found = diagnose_embeddings(cloud).neighborhood
    assert found.variance == pytest.approx(1, abs=0.01)
    assert found.effective_dim == pytest.approx(16, rel=0.02)
    assert found.hub_share < 0.05
    flat = torch.cat([cloud[:, :3], 0 * cloud[:, :5]], dim=1)
    assert diagnose_embeddings(flat).neighborhood.effective_dim == pytest.approx(3, rel=0.02)
    collapsed = diagnose_embeddings(1 + 1e-3 * cloud).neighborhood
    assert collapsed.variance < 1e-5
    # Items near the center of a wide cloud are the neighbors of many.
    wide = torch.randn(2000, 300, generator=generator) + 0.5
    wide[:10] = 0.5
    assert diagnose_embeddings(wide).neighborhood.hub_share > 0.1


def test_alpha_is_measured_with_labels_only(clusters, labeled) -> None:
    first, second, labels = clusters
    shuffled = labels[torch.randperm(600, generator=torch.Generator().manual_seed(0))]
    assert labeled.alpha == 1.0
    found = diagnose_embeddings(first, second, labels=shuffled, batch_size=100)
    assert found.alpha == pytest.approx(0.5, abs=0.02)
    assert diagnose_embeddings(first, second).alpha is None

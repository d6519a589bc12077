from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional as F

from bayescl.estimation import tau_plus_of_labels
from bayescl_lab._figures import png
from bayescl_lab.inspect.measures import EmbeddingDiagnosis, diagnose_embeddings
from bayescl_lab.inspect.page import similarity_figure


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


def test_a_batch_holds_as_many_false_negatives_as_labels_say(clusters, labeled) -> None:
    first, second, labels = clusters
    found = diagnose_embeddings(first[:4], second[:4], labels=torch.tensor([0, 0, 1, 2]))
    assert (found.batch_size, found.candidates) == (4, 6)
    pairs = diagnose_embeddings(first, second, labels=labels, are_pairs=True)
    assert (pairs.batch_size, pairs.candidates) == (256, 255)
    assert (labeled.items, labeled.dim, labeled.candidates) == (600, 12, 198)
    assert labeled.tau_plus == pytest.approx(tau_plus_of_labels(labels))
    assert labeled.false_negatives == pytest.approx(198 * 99 / 599)
    counts = {name: int(count.sum()) for name, count in labeled.similarity.items()}
    assert counts == {"true negatives": 600 * 500, "false negatives": 600 * 99}


def test_similarity_is_compared_with_labels_as_scikit_learn_does(clusters) -> None:
    first, second, labels = clusters
    mixed = torch.where(
        torch.rand(600, generator=torch.Generator().manual_seed(1)) < 0.5, 0, labels
    )
    found = diagnose_embeddings(first, second, labels=mixed)
    rows, second_rows = (F.normalize(view, dim=1) for view in (first, second))
    similarity = (rows @ second_rows.T).fill_diagonal_(-torch.inf)
    nearest = similarity.topk(24, dim=1).indices  # 4 % of 599
    assert found.nearest_false == pytest.approx(
        (mixed[nearest] == mixed[:, None]).double().mean().item(), abs=1e-4
    )
    own = (rows @ rows.T).numpy()
    others = ~np.eye(600, dtype=bool)
    same = (mixed[:, None] == mixed).numpy()
    aucs = [roc_auc_score(same[row][rest], own[row][rest]) for row, rest in enumerate(others)]
    assert found.alpha == pytest.approx(0.5 + 1.5 * (np.mean(aucs) - 0.5), abs=1e-4)
    closer = similarity < (rows * second_rows).sum(dim=1, keepdim=True)
    assert found.agreement == pytest.approx(closer.sum().item() / (600 * 599) - 1 / 599, abs=1e-4)


def test_only_items_with_a_label_are_compared(clusters) -> None:
    first, second, labels = clusters
    some = torch.where(torch.arange(600) % 3 == 0, labels, -1)
    found = diagnose_embeddings(first, second, labels=some)
    assert (found.items, found.labeled_items) == (600, 200)
    assert found.tau_plus == pytest.approx(tau_plus_of_labels(some[some >= 0]))
    assert sum(int(count.sum()) for count in found.similarity.values()) == 200 * 199
    # All labels different: there are no false negatives.
    found = diagnose_embeddings(first, second, labels=torch.arange(600))
    assert (found.tau_plus, found.false_negatives, found.nearest_false) == (0, 0, 0)
    assert found.alpha is None
    found = diagnose_embeddings(first)
    assert (found.tau_plus, found.nearest_false, found.alpha, found.agreement) == (None,) * 4


def test_copies_are_no_candidates_and_domains_are_counted_among_neighbors(clusters) -> None:
    first, second, labels = clusters
    ids = torch.arange(600) // 2
    found = diagnose_embeddings(first, second, groups=ids, domains=labels)
    alone = diagnose_embeddings(first, second, groups=torch.full((600,), -1))
    assert int(found.similarity["candidates"].sum()) == 600 * 598
    assert int(alone.similarity["candidates"].sum()) == 600 * 599
    assert found.neighborhood.same_domain > 0.9
    assert found.neighborhood.by_chance == pytest.approx(99 / 599)
    random = torch.randint(3, (600,), generator=torch.Generator().manual_seed(0))
    assert diagnose_embeddings(first, domains=random).neighborhood.domain_explains < 0.03
    assert alone.neighborhood.same_domain is None


def test_figures_are_plain_numbers_the_same_each_time_and_at_any_scale(clusters, labeled) -> None:
    first, second, labels = clusters
    again = diagnose_embeddings(first, second, labels=labels, batch_size=100)
    texts = [json.dumps(found.figures(), allow_nan=False) for found in (labeled, again)]
    assert texts[0] == texts[1]
    assert png(similarity_figure(labeled)) == png(similarity_figure(again))
    without = diagnose_embeddings(first, batch_size=100)
    assert png(similarity_figure(without)).startswith(b"\x89PNG")
    other = diagnose_embeddings(
        1e-3 * first.double().numpy(), 1e3 * second, labels=labels.numpy(), batch_size=100
    )
    assert other.nearest_false == labeled.nearest_false


BELOW = torch.arange(8) - 2


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (torch.zeros(3, 2), {}, r"embeddings must have at least 4 rows, got 3"),
        (torch.zeros(8), {}, r"embeddings must have shape \[items, dim\], got \[8\]"),
        (torch.ones(8, 2), {"labels": torch.arange(7)}, r"labels must have shape \[8\]"),
        (
            torch.ones(8, 2),
            {"labels": BELOW},
            "labels must be at least -1, which means unknown, got",
        ),
        (torch.ones(8, 2), {"labels": -torch.ones(8).long()}, "known for at least 2 items, got 0"),
        (torch.ones(8, 2), {"groups": BELOW}, "groups must be at least -1, which"),
        (torch.ones(9, 2), {"domains": torch.arange(9)}, "domains must be known for more than 10"),
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


def test_k_nn_falls_with_neighbors_from_other_domains_only_if_domains_hide_classes():
    generator = torch.Generator().manual_seed(0)
    labels, domains = torch.arange(400) % 2, torch.arange(400) // 2 % 4
    noise = 0.1 * torch.randn(400, 8, generator=generator)
    of_class = torch.eye(8)[labels]
    hidden = torch.eye(8)[2 * domains + labels]  # classes are apart within each domain only
    for rows, agrees in ((of_class, True), (hidden, False)):
        around = diagnose_embeddings(rows + noise, labels=labels, domains=domains).neighborhood
        assert around.knn > 0.99
        assert (around.knn_domains > 0.99) is agrees
        assert agrees or around.knn_domains < 0.7

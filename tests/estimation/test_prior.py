from __future__ import annotations

import pytest
import torch

from bayescl.estimation import tau_plus_of_class_sizes, tau_plus_of_labels


def test_balanced_classes_give_one_over_their_number_and_unbalanced_ones_more() -> None:
    for classes in (2, 10, 100):
        assert tau_plus_of_class_sizes([30] * classes) == pytest.approx(1 / classes)
    assert tau_plus_of_class_sizes([70, 20, 10]) == pytest.approx(0.49 + 0.04 + 0.01)


def test_the_prior_of_labels_is_the_share_of_pairs_that_agree() -> None:
    labels = torch.randint(0, 4, (40,), generator=torch.Generator().manual_seed(0))
    agree = [bool(labels[i] == labels[j]) for i in range(40) for j in range(40) if i != j]
    assert tau_plus_of_labels(labels) == pytest.approx(sum(agree) / len(agree))
    # In large sets the item itself does not matter.
    labels = labels.repeat(2500)
    by_size = tau_plus_of_class_sizes(labels.bincount())
    assert tau_plus_of_labels(labels) == pytest.approx(by_size, abs=1e-5)


def test_senseless_counts_are_named() -> None:
    for call, message in (
        (lambda: tau_plus_of_class_sizes([5, 0]), "sizes must name at least two classes"),
        (lambda: tau_plus_of_class_sizes([5, -1]), "sizes must be a list of numbers of at least 0"),
        (lambda: tau_plus_of_labels(torch.zeros(3).long()), "labels must name at least two"),
        (lambda: tau_plus_of_labels(torch.zeros(1).long()), r"labels must have shape \[items\]"),
    ):
        with pytest.raises(ValueError, match=message):
            call()

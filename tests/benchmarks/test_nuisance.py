"""A nuisance is in both views of an image, and what is told of it is the nuisance alone."""

from __future__ import annotations

import nuisance
import pytest
import torch

import bayescl


@pytest.mark.parametrize("kind", ["marks", "backgrounds", "stripes"])
def test_both_views_of_an_image_carry_its_nuisance_and_no_other(kind):
    over = nuisance.overlays(kind)
    assert 0 <= over.min() < over.max() <= 1
    data = nuisance.nuisance_set(kind, "validation")
    rows = torch.arange(64)
    for view in data.views(rows):  # an overlay is a bright floor, up to its own brightness
        missing = (over[None] - view[:, None]).clamp_min(0).flatten(2).sum(dim=2)
        own = missing.gather(1, data.nuisance[rows, None]).squeeze(1)
        assert own.mean() < missing.mean() / 3
    assert len(data.nuisance.unique()) == nuisance.NUISANCES


def test_domains_are_the_nuisance_and_few_labels_of_each_class_audit():
    data = nuisance.nuisance_set("batches-6", "validation")
    rows = torch.arange(len(data.labels))
    loss, call = nuisance.contender("info_nce_domains", data, 0.25, seed=1)
    assert isinstance(loss, bayescl.InfoNCELoss)
    torch.testing.assert_close(call(rows)["domains"], data.nuisance)
    for method, count in nuisance.AUDITED.items():
        audit = nuisance.contender(method, data, 0.25, seed=1)[1](rows)["audit"]
        assert audit[audit >= 0].bincount().tolist() == [count] * 10
        assert (audit == data.labels)[audit >= 0].all()
    assert nuisance.contender("latent", data, 0.25, seed=1)[1] is None


def test_a_summary_compares_runs_of_one_seed_with_each_other():
    about = {"data": "marks", "temperature": 0.25, "head": True, "batch": 256}
    lines = [
        about | {"method": method, "seed": seed, "scores": {"knn": knn}}
        for method, seed, knn in [("info_nce", 1, 0.5), ("info_nce", 2, 0.9), ("latent", 2, 0.8)]
    ]
    base, latent = nuisance.summary(lines)
    assert base["scores"]["knn"]["mean"] == pytest.approx(0.7)
    assert base["above_info_nce"]["knn"]["mean"] == 0
    assert latent["seeds"] == 1
    assert latent["above_info_nce"]["knn"]["mean"] == pytest.approx(-0.1)


def test_a_moment_of_an_audit_is_the_term_of_a_fit():
    torch.manual_seed(0)
    labels = torch.arange(4).repeat(64)
    centres = torch.eye(4, 8)
    loss = bayescl.LatentClassContrastiveLoss(num_classes=4, refit_every=1)
    moments = nuisance.Moments(loss, labels)
    for _ in range(20):
        rows = torch.randperm(len(labels))[:128]
        views = [centres[labels[rows]] + 0.1 * torch.randn(len(rows), 8) for _ in range(2)]
        loss(*views, audit=labels[rows])
        moments.see(rows, *views)
    moments.close()
    assert 0 < moments.counts["moments"] <= 20
    # Classes are far apart: every attracting pair is of one class, and the interval says so.
    assert moments.counts["inside"] == moments.counts["moments"]

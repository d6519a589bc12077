"""The study of teachers: its sets, its plan and its summary; and what rivals compute."""

import math
from dataclasses import asdict, replace

import evidence
import evidence_sets
import pytest
import torch
from evidence import Case
from evidence_sets import data_set
from rivals import FNC
from torch.nn import functional as F

import bayescl

BATCH, DIM = 6, 8
LABELS = torch.tensor([0, 0, 1, 1, 1, 2])


def views() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, BATCH, DIM, generator=generator).unbind()


@pytest.mark.parametrize("kind", ["marks", "backgrounds", "stripes"])
def test_both_views_of_an_image_have_its_nuisance_and_the_plain_image_too(kind):
    over = evidence_sets.overlays(kind)
    assert 0 <= over.min() < over.max() <= 1
    data, digits = data_set(kind), data_set("digits")
    rows = torch.arange(64)

    def brightness(pixels):  # undoes the normalization, which plain digits show
        bare = digits.plain(rows)
        black = bare.min()
        return (pixels - data.plain(rows).min()) / (bare.max() - black)

    for seen in (data.view(rows), data.view(rows), data.plain(rows)):
        missing = (over[None] - brightness(seen)[:, None]).clamp_min(0).flatten(2).sum(dim=2)
        own = missing.gather(1, data.nuisance[rows, None]).squeeze(1)
        assert own.mean() < missing.mean() / 2
    assert len(data.nuisance.unique()) == evidence_sets.NUISANCES


def test_sets_without_data_are_named_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    assert "spoken-digits" in evidence_sets.why_absent("words")
    assert evidence_sets.why_absent("digits") is None


def test_the_plan_has_every_run_once_with_the_gains_first():
    plan = evidence.plan()
    assert len(plan) == len(set(plan))
    assert {case.data for case in plan[:18]} == set(evidence.FIRST)
    assert {case.share for case in plan[:18]} == {1, 0.1}
    assert {case.data for case in plan} == {*evidence_sets.SETS, "pairs"}
    assert {case.variant for case in plan} == set(evidence.VARIANTS)
    assert {case.method for case in plan} == set(evidence.TITLES)
    for case in plan:  # whatever is compared with InfoNCE finds it
        of = case.variant if case.variant in evidence.WITH_BASELINE else ""
        assert replace(case, method="info_nce", share=1.0, variant=of) in plan


@pytest.fixture
def short():
    """A set of few vectors, and one epoch."""
    return replace(data_set("batches-6"), epochs=1, batch_size=1000)


def _weight(encoder):
    return sum(weight.detach().double().sum().item() for weight in encoder.parameters())


METHODS = [(method, "") for method in evidence.TITLES if method != "info_nce"]
VARIANTS = [("info_nce", variant) for variant in evidence.VARIANTS]


@pytest.mark.parametrize(("method", "variant"), [*METHODS, *VARIANTS])
def test_every_method_and_variant_trains_and_differs_from_info_nce(short, method, variant):
    plain, _ = evidence.trained(Case("batches-6"), short)
    share = 1.0 if method != "info_nce" else 0.5
    encoder, _ = evidence.trained(Case("batches-6", method, 0.2, share, variant), short)
    assert math.isfinite(_weight(encoder))
    assert _weight(encoder) != _weight(plain)


def test_a_summary_compares_runs_of_one_seed_with_each_other_and_lists_the_worst_first():
    def line(knn, **about):
        return asdict(Case("marks", **about)) | {"scores": {"knn": knn}}

    lines = [
        line(0.5, seed=1),
        line(0.8, seed=2),
        line(0.7, seed=2, share=0.5),
        line(0.9, seed=1, method="oracle"),
        line(1.0, seed=2, method="oracle"),
    ]
    base, other, oracle = evidence.summary(lines)
    assert base["scores"]["knn"]["mean"] == pytest.approx(0.65)
    assert other["seeds"] == 1
    assert other["above_info_nce"]["knn"]["mean"] == pytest.approx(-0.1)
    assert other["gap_closed"]["knn"] == pytest.approx(-0.5)
    assert oracle["gap_closed"]["knn"] == pytest.approx(1.0)
    (worst,) = evidence.regrets([base, other, oracle])
    assert (worst["data"], worst["probe"]) == ("marks", "knn")


@pytest.mark.parametrize("attract", [False, True])
def test_fnc_is_the_oracle_if_its_average_knows_classes_and_info_nce_if_it_finds_nothing(attract):
    view_1, view_2 = views()
    slow = [F.one_hot(LABELS, 3).float() @ torch.eye(3, DIM)] * 4
    blind = FNC(0.3, attract=attract, threshold=2.0)(view_1, view_2, slow)
    torch.testing.assert_close(blind, bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))
    knowing = FNC(0.3, attract=attract, top_k=99, threshold=0.5)(view_1, view_2, slow)
    loss = bayescl.SupervisedContrastiveLoss if attract else bayescl.OracleContrastiveLoss
    known = {"labels": LABELS} if loss.needs_labels else {"groups": LABELS}
    torch.testing.assert_close(knowing, loss(temperature=0.3)(view_1, view_2, **known))

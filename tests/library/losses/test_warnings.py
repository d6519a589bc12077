"""Nobody is silent: what is probably a mistake says so once, in words that help."""

import pytest
import torch

import bayescl


def test_a_temperature_that_looks_like_a_scale_is_pointed_out():
    with pytest.warns(UserWarning, match="temperature=20 divides similarities"):
        bayescl.InfoNCELoss(temperature=20.0)


def test_a_batch_in_which_nothing_is_a_candidate_says_so_once():
    views, same = torch.randn(2, 4, 8), torch.zeros(4, dtype=torch.int64)
    loss = bayescl.BayesianContrastiveLoss()
    with pytest.warns(UserWarning, match="no anchor has a candidate"):
        assert loss(*views, groups=same) == 0
    loss(*views, groups=same)
    with pytest.warns(UserWarning, match="no anchor has a candidate"):
        bayescl.InfoNCELoss()(*views, margin=bayescl.Margin(absolute=-2.0))
    with pytest.raises(ValueError, match="no anchor has a candidate"):
        bayescl.InfoNCELoss(check_finite=True)(*views, groups=same)


def test_domains_with_few_candidates_are_pointed_out_once():
    views, domains = torch.randn(2, 40, 8), torch.arange(40) % 2
    many, few = bayescl.InfoNCELoss(check_finite=True), bayescl.InfoNCELoss(check_finite=True)
    many(*views, domains=domains)  # 38 each
    with pytest.warns(UserWarning, match="half of the anchors have at most 14 candidates"):
        few(*views, domains=torch.arange(40) % 5)
    few(*views, domains=torch.arange(40) % 5)

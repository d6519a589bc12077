"""Standardization and views: closed forms and limits."""

import pytest
import torch

from bayescl_lab.arrays.views import RowViews, SignalViews, Standardization
from bayescl_lab.items.store import ItemStore

LABELS = torch.zeros(64, dtype=torch.long)
ROWS = ItemStore(torch.randn(64, 5) * 3 + 1000, LABELS, ("a",))
SIGNALS = ItemStore(torch.randn(64, 2, 30) * 3 + 10, LABELS, ("a",))
OFF = {"noise": 0.0, "dropout": 0.0, "scale": 0.0}


@pytest.mark.parametrize("store", [ROWS, SIGNALS])
def test_standardized_items_have_mean_0_and_deviation_1_and_are_clipped(store):
    scaled = Standardization(store)(store.items)
    axes = (0,) if scaled.ndim == 2 else (0, 2)
    torch.testing.assert_close(scaled.mean(axes), torch.zeros(scaled.shape[1]), atol=1e-2, rtol=0)
    torch.testing.assert_close(
        scaled.std(axes, correction=0), torch.ones(scaled.shape[1]), atol=1e-2, rtol=0
    )
    assert Standardization(store)(store.items * 1e6).abs().max() == 5


def test_constant_features_become_0():
    tensor = torch.cat([torch.randn(64, 1), torch.full((64, 1), 1e5 + 0.1)], dim=1)
    scaled = Standardization(ItemStore(tensor, LABELS, ("a",)))(tensor)
    assert scaled[:, 1].abs().max() == 0
    assert scaled[:, 0].std() > 0.9


def test_views_without_strengths_are_the_standardized_items():
    rows = RowViews(standardization=Standardization(ROWS), swap=0.0, **OFF)
    assert torch.equal(rows(ROWS.items, seed=3), rows.plain(ROWS.items))
    signals = SignalViews(standardization=Standardization(SIGNALS), crop=1.0, **OFF)
    torch.testing.assert_close(signals(SIGNALS.items, seed=3), signals.plain(SIGNALS.items))


def test_views_depend_on_the_seed_only():
    views = SignalViews(
        standardization=Standardization(SIGNALS), crop=0.5, scale=0.2, noise=0.3, dropout=0.2
    )
    assert torch.equal(views(SIGNALS.items, seed=3), views(SIGNALS.items, seed=3))
    assert not torch.equal(views(SIGNALS.items, seed=3), views(SIGNALS.items, seed=4))


@pytest.mark.parametrize("store", [ROWS, SIGNALS])
def test_a_row_or_a_channel_of_a_signal_is_scaled_by_one_factor(store):
    own = {"swap": 0.0} if store is ROWS else {"crop": 1.0}
    kind = RowViews if store is ROWS else SignalViews
    views = kind(standardization=Standardization(store), **own, **OFF | {"scale": 0.2})
    drawn, plain = views(store.items, seed=0), views.plain(store.items)
    factors = (drawn * plain).sum(-1, keepdim=True) / plain.square().sum(-1, keepdim=True)
    torch.testing.assert_close(drawn, factors * plain)
    assert factors.mean() == pytest.approx(1, abs=0.1)
    assert factors.std() == pytest.approx(0.2, abs=0.06)


def test_swapped_features_are_values_of_the_same_feature_in_other_rows():
    views = RowViews(standardization=Standardization(ROWS), swap=0.5, **OFF)
    drawn, plain = views(ROWS.items, seed=0), views.plain(ROWS.items)
    assert 0.4 < float((drawn != plain).double().mean()) < 0.6
    for feature in range(5):
        assert torch.isin(drawn[:, feature], plain[:, feature]).all()


def test_a_crop_of_a_line_is_a_part_of_the_line_at_the_whole_length():
    line = torch.linspace(-1, 1, 30).expand(64, 2, 30)
    views = SignalViews(standardization=Standardization(SIGNALS), crop=0.5, **OFF)
    drawn = views.view(line, torch.Generator().manual_seed(0))
    steps = drawn.diff(dim=2)
    torch.testing.assert_close(steps, steps[:, :, :1].expand_as(steps), atol=1e-4, rtol=0)
    share = steps[:, 0, 0] * 29 / 2
    assert share.min() >= 0.499
    assert share.max() <= 1.001
    assert share.std() > 0.1

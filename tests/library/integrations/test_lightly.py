"""Losses in the shape of lightly's: equal to its own."""

import pytest
import torch

import bayescl
from bayescl.integrations import lightly as ours
from bayescl.integrations.open_clip import ClipLoss
from integrations.on_ranks import assert_same, rows, stepped

BAYESIAN = bayescl.BayesianContrastiveLoss


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("lightly.loss", reason="needs lightly")


def views(batch: int, seed: int) -> list[torch.Tensor]:
    return [rows(batch, 2 * seed + view).requires_grad_() for view in (0, 1)]


@pytest.mark.filterwarnings("ignore:a batch of one item")
@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_info_nce_is_theirs(theirs, temperature, batch):
    mine, reference = (made(temperature) for made in (ours.NTXentLoss, theirs.NTXentLoss))
    assert_same(stepped(mine, views(batch, 0)), stepped(reference, views(batch, 0)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [bayescl.InfoNCELoss, BAYESIAN, bayescl.DebiasedContrastiveLoss])
def test_one_item_costs_nothing_and_is_warned_of_once(loss, dtype, reduction):
    criterion = ours.NTXentLoss(loss=loss, reduction=reduction)
    last = [view.detach().to(dtype).requires_grad_() for view in views(1, 0)]
    with pytest.warns(UserWarning, match="a batch of one item has no candidates, so its loss is 0"):
        value = criterion(*last)
    assert torch.equal(value, torch.zeros(2) if reduction == "none" else torch.tensor(0.0))
    value.sum().backward()
    assert all((view.grad == 0).all() for view in last)
    assert not criterion(*last).any()  # without another warning
    assert criterion(*views(2, 0)).all()


def test_a_single_process_has_nothing_to_gather():
    alone, gathering = (ours.NTXentLoss(0.5, gather_distributed=gather) for gather in (False, True))
    assert_same(stepped(gathering, views(3, 0)), stepped(alone, views(3, 0)))


def test_a_teacher_is_the_third_input():
    plain = rows(7, 9)
    for loss in (bayescl.InfoNCELoss, BAYESIAN):
        mine = ours.NTXentLoss(0.3, loss=loss, positive_share=0.2)
        direct = loss(temperature=0.3, positive_share=0.2)
        wanted = stepped(direct, views(7, 0), teacher=plain)
        assert_same(stepped(mine, views(7, 0), plain), wanted)
        assert_same(stepped(mine, views(7, 0), teacher=plain), wanted)


@pytest.mark.parametrize(("loss", "got"), [(BAYESIAN(), "a Bay|Bay"), ("info_nce", "'info_nce'")])
def test_a_loss_is_given_as_a_class(loss, got):
    for adapter in (ours.NTXentLoss, ClipLoss):
        with pytest.raises(
            TypeError, match=f"loss must be a class such as InfoNCELoss, got ({got})"
        ):
            adapter(loss=loss)


def test_a_memory_bank_is_refused():
    with pytest.raises(ValueError, match=r"memory_bank_size must be 0 \(no memory bank\), got 16"):
        ours.NTXentLoss(memory_bank_size=16)

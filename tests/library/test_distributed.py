"""Two and three ranks with unequal batches do what one process does, or refuse together."""

import os

import pytest
import torch
from ranks import equality, gathering, launch, refusals
from torch import distributed as dist

import bayescl
from bayescl import distributed

pytestmark = pytest.mark.distributed

WORK = {
    "layouts": equality.layouts,
    "gathered": gathering.gathered,
    "reductions": gathering.reductions,
    "batches of domains": gathering.batches_of_domains,
    "cache": gathering.cache,
    "sharded": gathering.sharded,
    "messages": refusals.messages,
}
PRECISIONS = {"torch.float32": 3e-6, "torch.float64": 1e-12}


def everything(rank: int, world_size: int) -> launch.Findings:
    return {name: work(rank, world_size) for name, work in WORK.items()}


@pytest.fixture(scope="session", params=[2, 3], ids="{} processes".format)
def found(request, tmp_path_factory: pytest.TempPathFactory) -> list[launch.Findings]:
    """What every process found; starting processes costs more than all they do."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers of this run
    own = folder / f"{request.param}-ranks"
    return launch.run_once(everything, request.param, seconds=180, folder=own)


def test_ranks_equal_one_process_in_every_layout_loss_and_precision(found):
    for findings in found:
        assert len(findings["layouts"]) == len(list(equality.cases()))
        apart = {  # further than rounding explains
            case: far
            for case, far in findings["layouts"].items()
            if not far < PRECISIONS[case.rpartition("; ")[2]]
        }
        assert not apart


def test_gathered_rows_are_in_the_order_of_ranks_and_send_gradients_to_their_owners(found):
    """Unequal rows of every kind; gradients up to the second derivative; sums and losses."""
    for findings in found:
        assert max(findings["reductions"].values()) < 1e-13
        wrong = {
            case: result
            for case, result in findings["gathered"].items()
            if not (result if isinstance(result, bool) else result < 1e-14)
        }
        assert len(findings["gathered"]) == 10
        assert not wrong


def test_the_gradient_cache_gathers(found):
    """The cache with dropout, BatchNorm, a loss that gathers and unequal numbers of chunks."""
    for findings in found:
        assert findings["cache"]["distance"] < 1e-6


def test_an_encoder_with_sharded_parameters_gets_the_gradients_of_a_whole_one(found):
    for findings in found:
        assert findings["sharded"]["gradients"] < 2e-6


def test_processes_draw_different_batches_of_domains(found):
    for findings in found:
        drawn = findings["batches of domains"]
        assert drawn["distinct"] == drawn["drawn"] > 200


def test_what_one_rank_gets_wrong_all_ranks_refuse_alike(found):
    for message in refusals.CASES:
        said = [findings["messages"][message] for findings in found]
        assert all(in_step for _, in_step in said), message
        # A rank that breaks down raises its own error; the others say which rank that was.
        texts = {raised.partition(": ")[2].removesuffix(" on rank 1") for raised, _ in said}
        assert len(texts) == 1, (message, texts)
        assert message in texts.pop()
        assert any("rank 1" in raised for raised, _ in said), message


def test_gathering_without_a_process_group_is_refused():
    rows = torch.eye(3)
    loss = bayescl.InfoNCELoss(gather=True)
    for call in (
        lambda: loss(rows, rows),
        lambda: loss.in_batch(rows, rows),
        lambda: loss.sampled(rows, rows, rows),
        lambda: loss.from_logits(rows[:, 0], rows),
        lambda: distributed.gather(rows),
    ):
        with pytest.raises(RuntimeError, match="needs an initialized process group"):
            call()


def test_a_group_of_one_rank_has_nothing_to_gather():
    generator = torch.Generator().manual_seed(0)
    rows, other = torch.randn(2, 4, 3, generator=generator)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert distributed.gather(rows) is rows
        loss = bayescl.BayesianContrastiveLoss(gather=True)
        assert torch.equal(loss(rows, other), bayescl.BayesianContrastiveLoss()(rows, other))
        with pytest.raises(ValueError, match=r"^view_1 must have at least 2 rows, got 1"):
            loss(rows[:1], other[:1])
    finally:
        dist.destroy_process_group()

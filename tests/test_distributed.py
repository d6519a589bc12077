"""Two and three ranks with unequal batches do what one process does, or refuse together."""

from __future__ import annotations

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
    "data_parallel": equality.data_parallel,
    "gathered": gathering.gathered,
    "reductions": gathering.reductions,
    "batches of domains": gathering.batches_of_domains,
    "cache": gathering.cache,
    "messages": refusals.messages,
}
PRECISIONS = {"torch.float32": 1e-6, "torch.float64": 1e-13}


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


def apart(distances: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """The cases whose value or gradient is further from one process's than rounding explains."""
    return {
        case: far
        for case, far in distances.items()
        # The third is of the loss's parameters, which are kept in float32.
        if not (max(far[:2]) < PRECISIONS[case.rpartition("; ")[2]] and max(far) < 3e-6)
    }


def test_ranks_equal_one_process_in_every_layout_loss_and_precision(found) -> None:
    for findings in found:
        assert len(findings["layouts"]) == len(list(equality.cases()))
        assert not apart(findings["layouts"])


def test_data_parallel_training_has_the_gradients_of_one_process(found) -> None:
    for findings in found:
        assert len(findings["data_parallel"]) == 4 * len(equality.LOSSES)
        assert not apart({case: (far,) for case, far in findings["data_parallel"].items()})


def test_gathered_rows_are_in_the_order_of_ranks_and_send_gradients_to_their_owners(found) -> None:
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


def test_the_gradient_cache_gathers(found) -> None:
    """The cache with dropout, BatchNorm, a loss that gathers and unequal numbers of chunks."""
    for findings in found:
        assert findings["cache"]["distance"] < 1e-6


def test_processes_draw_different_batches_of_domains(found) -> None:
    for findings in found:
        drawn = findings["batches of domains"]
        assert drawn["distinct"] == drawn["drawn"] > 200


REFUSALS = {  # rank 1 is the one that differs
    "an empty batch": "view_1 must not be empty, got shape [0, 3]",
    "other dimensions": "the shape of a row must be the same on every process, got [3] on rank 0",
    "another precision": "dtype must be the same on every process, got float32 on rank 0",
    "no gradient": "requires_grad must be the same on every process, got True on rank 0",
    "groups on one process": "the shape of groups per row must be the same on every process, got",
    "views that do not fit": "view_2 must have shape [4, 3], got [3, 3]",
    "no tensor": "view_1 must be a tensor, got list",
    "rows elsewhere": "the kind of device must be the same on every process, got cpu on rank 0",
    "no memory": "out of memory",
    "a NaN": "view_1 must be finite, got 12 NaN or infinite entries",
    "a mask of its own columns": "shared columns on rank 1 (the candidates of all processes",
    "a mask for both directions": "valid must be None if both_directions and gather are set",
    "another layout": "the layout must be the same on every process, got in_batch on rank 0",
    "one direction": "the number of directions must be the same on every process, got 1 on rank 0",
    "its own candidates": "the layout must be the same on every process, got sampled on rank 0",
    "the same candidates": "the layout must be the same on every process, got sampled with",
    "logits that do not fit": "unlabeled must have shape [3, candidates], got [4, 3]",
    "no rows to gather": "every process must hold at least one row, got 2 on rank 0",
    "a scalar to gather": "rows must have at least one axis, got a scalar",
    "another shape to gather": "the shape of a row must be the same on every process",
    "extra on one process": "whether extra is given must be the same on every process",
    "a teacher on one process": "the shape of teacher per row must be the same on every process",
    "a teacher of other dimensions": "the shape of teacher per row must be the same on every",
    "labels on one process": "the shape of labels per row must be the same on every process",
    "a teacher of extra on one process": "whether block 1 has teacher must be the same on every",
    "log_q of extra on one process": "whether block 1 has log_q must be the same on every process",
    "a margin without a teacher": "Margin(by_teacher=True) needs teacher for anchors and positives",
    "no margin": "margin must be a Margin, got float",
}


def test_what_one_rank_gets_wrong_all_ranks_refuse_alike(found) -> None:
    assert REFUSALS.keys() == refusals.CASES.keys()
    for case, message in REFUSALS.items():
        said = [findings["messages"][case] for findings in found]
        assert all(in_step for _, in_step in said), case
        # A rank that breaks down raises its own error; the others say which rank that was.
        texts = {raised.partition(": ")[2].removesuffix(" on rank 1") for raised, _ in said}
        assert len(texts) == 1, (case, texts)
        assert message in texts.pop(), case
        assert any("rank 1" in raised for raised, _ in said), case


def test_gathering_without_a_process_group_is_refused() -> None:
    rows = torch.eye(3)
    loss = bayescl.InfoNCELoss(gather=True)
    for call in (
        lambda: loss(rows, rows),
        lambda: loss.in_batch(rows, rows),
        lambda: loss.sampled(rows, rows, rows),
        lambda: loss.from_logits(rows[:, 0], rows),
        lambda: distributed.gather(rows),
    ):
        with pytest.raises(RuntimeError, match="needs an initialised process group"):
            call()


def test_a_group_of_one_rank_has_nothing_to_gather() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, other = torch.randn(2, 4, 3, generator=generator)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert distributed.gather(rows) is rows
        loss = bayescl.BayesianContrastiveLoss(gather=True)
        assert torch.equal(loss(rows, other), bayescl.BayesianContrastiveLoss()(rows, other))
        with pytest.raises(ValueError, match=r"^view_1 must hold at least 2 rows, got 1"):
            loss(rows[:1], other[:1])
    finally:
        dist.destroy_process_group()

"""The formulas of the scale model agree with what the library sends, keeps and multiplies."""

from __future__ import annotations

import pytest
import scale_model
import torch
from ranks.launch import Findings, run
from torch import distributed as dist
from torch.utils.flop_counter import FlopCounterMode

import bayescl

BATCH, DIM = 12, 5


def bytes_sent(rank: int, world_size: int) -> Findings:
    """Bytes of rows and of notes in a step of two views, as the collectives see them."""
    found = {"gathered": 0, "scattered": 0, "notes": 0}
    gather, scatter = dist.all_gather_into_tensor, dist.reduce_scatter_tensor

    def counted_gather(everyone, own, group=None):
        kind = "notes" if own.dtype == torch.uint8 else "gathered"
        found[kind] += everyone.nbytes - own.nbytes
        return gather(everyone, own, group=group)

    def counted_scatter(own, everyone, group=None):
        found["scattered"] += everyone.nbytes - own.nbytes
        return scatter(own, everyone, group=group)

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = counted_gather, counted_scatter
    views = torch.randn(2, BATCH // world_size, DIM, requires_grad=True)
    bayescl.InfoNCELoss(gather=True)(*views).backward()
    return found


@pytest.mark.distributed
def test_two_processes_send_what_the_formulas_say() -> None:
    for found in run(bytes_sent, 2, seconds=90):
        assert found["gathered"] == scale_model.gathered_bytes(BATCH, 2, DIM)
        assert found["scattered"] == scale_model.gathered_bytes(BATCH, 2, DIM)
        assert found["notes"] == scale_model.note_bytes(2)


def in_place_product(total, left, right, **_) -> int:
    """Operations of ``addmm_``, which PyTorch's counter does not know."""
    return 2 * left[0] * left[1] * right[1]


@pytest.mark.parametrize("loss", [bayescl.InfoNCELoss, bayescl.BayesianContrastiveLoss])
def test_the_chunked_engine_multiplies_three_times_per_logit(loss) -> None:
    anchors, candidates, dim = 256, 512, 16
    rows = [torch.randn(n, dim, requires_grad=True) for n in (anchors, anchors, candidates)]
    in_place = {torch.ops.aten.addmm_: in_place_product}
    counter = FlopCounterMode(display=False, custom_mapping=in_place)
    with counter:
        loss(engine="chunked").sampled(*rows).backward()
    per_logit = counter.get_total_flops() / (anchors * candidates)
    name = loss.__name__.removesuffix("ContrastiveLoss").removesuffix("Loss")
    assert per_logit == pytest.approx(
        scale_model.operations_per_logit("chunked", name, dim), rel=0.02
    )


def test_only_the_dense_engine_keeps_bytes_for_every_logit() -> None:
    for loss in (bayescl.InfoNCELoss, bayescl.BayesianContrastiveLoss):
        sizes = (512, 1024, 4)
        assert scale_model.saved_bytes_per_logit(loss(engine="dense"), *sizes) >= scale_model.FLOAT
        assert scale_model.saved_bytes_per_logit(loss(engine="chunked"), *sizes) < 1


def test_the_share_of_the_loss_does_not_depend_on_the_number_of_devices() -> None:
    for devices in (1, 8, 64):
        logits = scale_model.logits_per_device(4096, devices)
        loss = logits * scale_model.operations_per_logit("chunked", "InfoNCE", 128)
        encoder = scale_model.rows_of(4096) // devices * 1e9
        assert loss / encoder == pytest.approx(scale_model.loss_share(4096, 128, 1e9))


def test_engines_are_level_at_the_break_even_dimension() -> None:
    rate, bandwidth = 60e12, 3e12
    for loss in ("InfoNCE", "Bayesian"):
        level = scale_model.break_even_dim(loss, rate, bandwidth)
        exact = scale_model.PRODUCTS["chunked", loss] * 2 * level / rate
        exact += scale_model.bytes_per_logit("chunked", loss) / bandwidth
        assert scale_model.PRODUCTS["fused", loss] * 2 * level / rate == pytest.approx(exact)


def test_chunks_are_those_of_the_engine_and_never_larger_than_the_device_holds() -> None:
    assert scale_model.chunk_rows(2**12, 1024) == 8
    assert scale_model.chunk_rows(2**20, 8) == 128
    assert scale_model.chunk_bytes(2**20, 8) == 128 * 2**21 * 4

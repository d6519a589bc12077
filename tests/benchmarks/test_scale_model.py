"""The formulas of the scale model agree with what the library sends, keeps and multiplies."""

from __future__ import annotations

from collections import Counter

import pytest
import scale_model
import torch
from ranks.latent import DIM, drawn
from ranks.launch import Findings, run
from torch import Tensor
from torch import distributed as dist
from torch.utils.flop_counter import FlopCounterMode

import bayescl
from bayescl.losses.class_fits import fitted_classes, mixture_sizes
from bayescl.losses.class_state import tensors_of

BATCH, CLASSES, MEMORY = 32, 2, 64


def counting(sent: Counter[str]) -> None:
    """Have this process count the bytes that collectives bring, by what they carry."""
    gather, scatter = dist.all_gather_into_tensor, dist.reduce_scatter_tensor
    broadcast = dist.broadcast

    def gathered(everyone: Tensor, own: Tensor, group=None) -> object:
        kind = "notes" if own.dtype == torch.uint8 else f"{own.dtype} x {own[:1].numel()}"
        sent[kind] += everyone.nbytes - own.nbytes
        return gather(everyone, own, group=group)

    def scattered(own: Tensor, everyone: Tensor, group=None) -> object:
        sent["scattered"] += everyone.nbytes - own.nbytes
        return scatter(own, everyone, group=group)

    def copied(tensor: Tensor, **options) -> object:
        sent["copied"] += tensor.nbytes
        return broadcast(tensor, **options)

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = gathered, scattered
    dist.broadcast = copied


def bytes_sent(rank: int, world_size: int) -> Findings:
    """Bytes in a step of InfoNCE, and in every step of latent classes."""
    sent: Counter[str] = Counter()
    counting(sent)
    own = BATCH // world_size
    views = torch.randn(2, own, DIM, requires_grad=True)
    bayescl.InfoNCELoss(gather=True)(*views).backward()
    found: Findings = {"InfoNCE": dict(sent), "steps": []}
    loss = bayescl.LatentClassContrastiveLoss(
        num_classes=CLASSES, memory_size=MEMORY, gather=True, refit_every=5
    )
    for step in range(12):
        views = [view.detach()[rank * own :][:own] for view in drawn(step, BATCH, BATCH)]
        due, fit = loss.memory.is_due_to_observe, loss.memory.classes
        sent.clear()
        loss(*(view.requires_grad_() for view in views)).backward()
        kinds = {"due": due, "fits": loss.memory.classes is not fit}
        found["steps"].append({**kinds, **sent})
    kept = tensors_of(loss.memory.classes)
    found["kept"] = loss.memory.items.nbytes + sum(tensor.nbytes for tensor in kept.values())
    found["kept"] += sum(matrix.nbytes for matrix in loss.memory.classes.moves)
    return found


@pytest.mark.distributed
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_send_and_keep_what_the_formulas_say(processes) -> None:
    plain = scale_model.scale(BATCH, processes, DIM)
    latent = scale_model.latent_scale(CLASSES, BATCH, processes, DIM, MEMORY)
    others, components = BATCH - BATCH // processes, latent["components"]
    assert components != DIM
    for found in run(bytes_sent, processes, seconds=300):
        rows = {f"torch.float32 x {DIM}": plain["gathered"], "scattered": plain["gathered"]}
        assert found["InfoNCE"] == {"notes": plain["notes"], **rows}
        assert found["kept"] == latent["kept"]
        labels, trusting = others * scale_model.LABEL, 0
        for step in found["steps"]:
            due, fits = step.pop("due"), step.pop("fits")
            posterior = step.pop(f"torch.float32 x {components}", 0) - due * latent["views"]
            assert posterior in (0, latent["posterior"])  # if nothing is trusted, nothing is sent
            trusting += posterior > 0
            items = plain["gathered"] + latent["items"] - labels
            expected = {f"torch.float32 x {DIM}": items, "torch.int64 x 1": labels}
            expected |= {"scattered": plain["gathered"], "notes": 2 * plain["notes"]}
            assert step == expected | ({"copied": latent["fit"]} if fits else {})
        assert trusting


def in_place_product(total, left, right, **_) -> int:
    """Operations of ``addmm_``, which PyTorch's counter does not know."""
    return 2 * left[0] * left[1] * right[1]


def operations(call) -> int:
    in_place = {torch.ops.aten.addmm_: in_place_product}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        call()
    return counter.get_total_flops()


def test_only_the_dense_engine_keeps_logits_and_the_chunked_multiplies_three_times() -> None:
    anchors, candidates, dim = 256, 512, 16
    rows = [torch.randn(n, dim, requires_grad=True) for n in (anchors, anchors, candidates)]
    losses = {"InfoNCE": bayescl.InfoNCELoss, "Bayesian": bayescl.BayesianContrastiveLoss}
    for name, loss in losses.items():
        count = operations(lambda loss=loss: loss(engine="blocked").sampled(*rows).backward())
        expected = scale_model.operations_per_logit("chunked", name, dim)
        assert count / (anchors * candidates) == pytest.approx(expected, rel=0.02)
        sizes = (512, 1024, 4)
        assert scale_model.saved_bytes_per_logit(loss(engine="reference"), *sizes) >= scale_model.FLOAT
        assert scale_model.saved_bytes_per_logit(loss(engine="blocked"), *sizes) < 1


@pytest.mark.parametrize("classes", [10, 800])
def test_a_fit_of_latent_classes_takes_the_products_of_the_formulas(classes) -> None:
    dim, items = 128, 2048
    expected = scale_model.latent_scale(classes, 64, 1, dim, items)
    memory = torch.randn(items, 2 * dim)
    count = operations(lambda: fitted_classes(memory, 1 / classes, seed=0, labelled=None))
    assert sum(mixture_sizes(1 / classes, items)) == expected["components"]
    assert count == pytest.approx(expected["fit_operations"], rel=0.02)
    assert scale_model.latent_scale(800, 2**16, 64, 128, 2**20)["fit"] > 0
    assert scale_model.latent_scale(10_000, 2**16, 64, 128, 2**20)["fit"] == 0


def test_the_share_of_the_loss_and_the_break_even_dimension_follow_from_the_formulas() -> None:
    for devices in (1, 8, 64):
        logits = scale_model.scale(4096, devices, 128)["logits"]
        loss = logits * scale_model.operations_per_logit("chunked", "InfoNCE", 128)
        encoder = 2 * 4096 // devices * 1e9
        assert loss / encoder == pytest.approx(scale_model.loss_share(4096, 128, 1e9))
    rate, bandwidth = 60e12, 3e12
    for name in ("InfoNCE", "Bayesian"):
        level = scale_model.break_even_dim(name, rate, bandwidth)
        exact = scale_model.PRODUCTS["chunked", name] * 2 * level / rate
        exact += scale_model.bytes_per_logit("chunked", name) / bandwidth
        assert scale_model.PRODUCTS["fused", name] * 2 * level / rate == pytest.approx(exact)


def test_chunks_are_those_of_the_engine_and_never_larger_than_the_device_holds() -> None:
    assert scale_model.scale(2**12, 1024, 1)["chunk_rows"] == 8
    assert scale_model.scale(2**20, 8, 1)["chunk_rows"] == 128
    assert scale_model.scale(2**20, 8, 1)["chunk"] == 128 * 2**21 * 4

"""Functions on logits compute in float32 or better, whatever they are given."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

import bayescl
from bayescl import functional

PRIOR = {"tau_plus": 0.1, "alpha": 0.9}
ON_LOGITS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "InfoNCE": functional.info_nce_loss,
    "debiased": partial(functional.debiased_loss, tau_plus=0.1, minimum_logit=-10.0),
    "hard": partial(functional.hard_loss, tau_plus=0.1, minimum_logit=-10.0, concentration=1.0),
    "Bayesian": partial(functional.bayesian_loss, beta=0.9, **PRIOR),
    "target": lambda positive, logits: functional.target_term(
        positive, logits, functional.target_probabilities(logits, temperature=0.5)
    ),
    "weights": lambda _, logits: functional.logit_weights(logits, beta=0.9, **PRIOR),
    "proposal": lambda _, logits: functional.proposal_cdf(logits.clamp(0, 1), **PRIOR),
    "posterior": lambda _, logits: functional.posterior(logits.clamp(0, 1), **PRIOR),
    "logits": lambda _, rows: functional.candidate_logits(rows, rows, 0.5),
    "pairs": lambda _, rows: functional.pair_logits(rows, rows, 0.5),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", list(ON_LOGITS))
def test_sixteen_bits_give_the_value_and_gradient_of_float32(name, dtype):
    generator = torch.Generator().manual_seed(0)
    positive = torch.randn(64, generator=generator).mul(4).to(dtype)
    unlabeled = torch.randn(64, 500, generator=generator).mul(4).to(dtype)
    results = []
    for wide in (dtype, torch.float32):
        leaves = [one.to(wide).requires_grad_() for one in (positive, unlabeled)]
        value = ON_LOGITS[name](*leaves)
        gradients = (
            torch.autograd.grad(value.sum(), leaves, materialize_grads=True, allow_unused=True)
            if value.requires_grad
            else []
        )
        results.append([value, *(gradient.to(dtype) for gradient in gradients)])
    assert results[0][0].dtype == torch.float32
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(results[0][1:], results[1][1:], rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("engine", ["blocked", "reference"])
@pytest.mark.parametrize(("anchors", "dim"), [(100, 64), (256, 128)])
def test_identical_candidates_tie_in_every_layout(anchors, dim, engine):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(anchors, dim, generator=generator)
    same = torch.randn(1, dim, generator=generator).expand(anchors, dim).contiguous()
    loss = bayescl.BayesianContrastiveLoss(beta=0.9, ranks="upper", engine=engine, **PRIOR)
    weight = functional.importance_weights(torch.ones(()), beta=0.9, **PRIOR)  # of a CDF of 1
    logits = functional.unit_vectors(rows) @ functional.unit_vectors(same[0]) / loss.temperature
    own = same[None, :9].expand(anchors, -1, -1).contiguous()
    for value, positive, count in [
        (loss.in_batch(rows, same), logits, anchors - 1),
        (loss.sampled(rows, same, own), logits, 9),
        (loss.sampled(rows, rows, own), torch.full_like(logits, 1 / loss.temperature), 9),
    ]:
        expected = torch.log1p(count * weight * (logits - positive).exp()).mean()
        torch.testing.assert_close(value, expected)

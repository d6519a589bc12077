"""An objective that no engine knows, defined here as data, runs on every engine as it is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from cases import rows
from torch import Tensor

import bayescl
from bayescl.diagnostics import candidate_weights, score_candidates
from bayescl.functional import LogSumObjective, Objective


@dataclass(frozen=True)
class Sharpened(LogSumObjective):
    """One sum, of another power, and the value that is the default: a softmax in closed form."""

    powers = (1.5,)


@dataclass(frozen=True)
class Spread(LogSumObjective):
    """Two sums and the number of candidates, put together in a way of its own."""

    strength: float = 0.3
    powers = (2.0, 0.0, 0.5)

    def from_log_sums(self, positive: Tensor, log_sums: tuple[Tensor, ...]) -> Tensor:
        double, count, half = log_sums
        return (double - count) / 2 - self.strength * (half - count) - positive


@dataclass(frozen=True)
class EasyFirst(LogSumObjective):
    """Weights that fall with rank; that of the last is 0 by upper ranks."""

    ranks: str = "mid"
    powers = (1.0,)

    def weights_of_cdf(self, cdf: Tensor) -> Tensor:
        return 2 * (1 - cdf)


@dataclass(frozen=True)
class EasyFirstSharpened(EasyFirst):
    """Weights by rank in sums of two powers."""

    powers = (1.5, 0.5)

    def from_log_sums(self, positive: Tensor, log_sums: tuple[Tensor, ...]) -> Tensor:
        return log_sums[0] - log_sums[1] - positive


PLAIN: dict[str, LogSumObjective] = {"sharpened": Sharpened(), "spread": Spread()}
RANKED: dict[str, LogSumObjective] = {
    "easy first": EasyFirst(),
    "easy first, upper": EasyFirst("upper"),
    "easy first, sharpened": EasyFirstSharpened(),
}


def slowly(objective: LogSumObjective, positive: Tensor, unlabeled: Tensor) -> Tensor:
    """One anchor's loss by the definition of the sums."""
    count = len(unlabeled)
    weights = torch.ones(count, dtype=unlabeled.dtype)
    if objective.ranks is not None:
        below = (unlabeled[None] < unlabeled[:, None]).sum(1)
        rank = below + (1 if objective.ranks == "upper" else 0.5)
        weights = 2 * (1 - rank.to(unlabeled.dtype) / count)
    sums = [
        torch.tensor(float(count), dtype=unlabeled.dtype)
        if power == 0
        else (weights * (power * unlabeled).exp()).sum()
        for power in objective.powers
    ]
    logs = tuple(one.log()[None] for one in sums)
    return objective.from_log_sums(positive[None], logs)[0]


class OnlyData:
    """Refuses to be called with the matrix of logits."""

    def __call__(self, *_: Tensor, **__: Tensor) -> Tensor:
        raise AssertionError("the engine fell back to the whole matrix")


@pytest.mark.parametrize("name", [*PLAIN, *RANKED])
@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_engines_compute_an_objective_that_they_do_not_know(
    name: str, engine: str, reduction: str
) -> None:
    objective: Objective = {**PLAIN, **RANKED}[name]
    if engine == "blocked":  # from the sums alone
        kind = type(objective)
        only_data = type(kind.__name__, (OnlyData, kind), {})
        objective = only_data(*(getattr(objective, f) for f in kind.__dataclass_fields__))
    counts_and_seeds = ((9, 0), (9, 1), (14, 2))
    embeddings = [rows(*it).double().requires_grad_() for it in counts_and_seeds]
    loss = bayescl.ContrastiveLoss(
        objective, engine=engine, chunk_size=4, reduction=reduction, normalize=False
    )
    ours = loss.sampled(*embeddings)
    anchors, positives, candidates = (one / 0.5**0.5 for one in embeddings)
    positive, unlabeled = (anchors * positives).sum(1), anchors @ candidates.T
    slow = {**PLAIN, **RANKED}[name]
    expected = torch.stack([slowly(slow, p, u) for p, u in zip(positive, unlabeled, strict=True)])
    expected = expected.mean() if reduction == "mean" else expected
    torch.testing.assert_close(ours, expected)
    upstream = torch.rand_like(expected)
    for mine, right in zip(
        torch.autograd.grad(ours, embeddings, upstream),
        torch.autograd.grad(expected, embeddings, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, right, rtol=1e-8, atol=1e-8)


def test_diagnostics_read_weights_from_the_data() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])

    def weights(objective: LogSumObjective) -> Tensor:
        loss = bayescl.ContrastiveLoss(objective)
        return candidate_weights(score_candidates(loss, torch.zeros(1), logits, layout="logits"))

    torch.testing.assert_close(weights(EasyFirst()), torch.tensor([[5 / 3, 1 / 3, 1.0]]))
    tilt = (0.5 * logits).exp()
    torch.testing.assert_close(weights(Sharpened()), tilt / tilt.mean())


def test_an_objective_without_weights_says_so() -> None:
    class Unfinished(LogSumObjective):
        ranks = "mid"

    with pytest.raises(NotImplementedError, match="Unfinished sets ranks without weights_of_cdf"):
        Unfinished()(torch.zeros(1), torch.zeros(1, 2))

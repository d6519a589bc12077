"""Objectives as data: engines read them from their sums, and diagnostics read their weights.

``losses/test_layouts`` compares the two of ``reference.cases`` with loops in every layout.
"""

from __future__ import annotations

import pytest
import torch
from reference.cases import CASES, EasyFirst, Sharpened
from torch import Tensor

import bayescl
from bayescl.diagnostics import candidate_weights, score_candidates
from bayescl.functional import LogSumObjective


@pytest.mark.filterwarnings("ignore:half of the anchors have at most")
@pytest.mark.parametrize("kind", [Sharpened, EasyFirst])
@pytest.mark.parametrize("case", ["two views", "several positives", "own candidates"])
def test_the_blocked_engine_never_calls_an_objective_with_the_matrix_of_logits(
    case: str, kind: type[LogSumObjective], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Tensor, **__: Tensor) -> Tensor:
        raise AssertionError("the engine fell back to the whole matrix")

    monkeypatch.setattr(LogSumObjective, "__call__", refuse)
    loss = bayescl.ContrastiveLoss(kind(), engine="blocked", chunk_size=4)
    assert CASES[case].run(loss, CASES[case].given).isfinite()


def test_diagnostics_read_weights_from_the_data() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    by_rank = torch.tensor([[5 / 3, 1 / 3, 1.0]])
    for objective, weights, power in ((EasyFirst("mid"), by_rank, 2.0), (Sharpened(), 1.0, 1.5)):
        loss = bayescl.ContrastiveLoss(objective)
        scored = score_candidates(loss, torch.zeros(1), logits, layout="logits")
        tilt = ((power - 1) * logits).exp()
        torch.testing.assert_close(candidate_weights(scored), weights * tilt / tilt.mean())


def test_an_objective_without_weights_says_so() -> None:
    class Unfinished(LogSumObjective):
        ranks = "mid"

    with pytest.raises(NotImplementedError, match="Unfinished must implement weights_of_cdf"):
        Unfinished()(torch.zeros(1), torch.zeros(1, 2))

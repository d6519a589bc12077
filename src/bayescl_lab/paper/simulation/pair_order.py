r"""How often a positive outscores a true negative if both are drawn from the model.

The parameter alpha mixes the order statistics of *one* pair from the proposal distribution. A
false negative and a true negative drawn independently from the two mixtures are not such a pair:
for any proposal distribution,

.. math::
    P(x^+ > x^-) = \int \Phi_{TN}\,d\Phi_{FN} = \tfrac12 + \tfrac{2\alpha - 1}{3} \le \tfrac56 .

That probability is the ROC-AUC of scores against labels, so alpha is not the AUC of independently
drawn scores, though it increases with it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_interval
from bayescl.functional import logit_weights
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.process import observe
from bayescl_lab.paper.simulation.proposals import NormalProposals
from bayescl_lab.paper.simulation.samplers import sample_by_inversion
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.sweeps import SWEEPS, Tick
from bayescl_lab.paper.simulation.tables import Table, Value

PAIRS = 20_000
"""Independent pairs per draw and alpha."""


def independent_pair_auc(alpha: float) -> float:
    """The AUC of independently drawn positives and true negatives under the model.

    Args:
        alpha: the model's mixture coefficient, in [0.5, 1].

    Returns:
        A value in [1/2, 5/6].

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> round(independent_pair_auc(0.9), 4), round(independent_pair_auc(1.0), 4)
        (0.7667, 0.8333)
    """
    return 0.5 + (2 * check_interval("alpha", alpha, 0.5, 1.0) - 1) / 3


def pair_order(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Measure the AUC at each alpha, and the cost of using it as alpha.

    Args:
        settings: the process; its ``alpha`` is replaced by each swept value.
        seed: seed of the run.
        tick: called after each value.

    Returns:
        One record per alpha: the measured share of independent pairs in which the positive
        outscores the true negative, its closed form, and the MSE of the Bayesian estimator
        (mid-ranks) with the true alpha and with the AUC in its place, on the same draws.
    """
    records: list[dict[str, Value]] = []
    alphas = [float(alpha) for alpha in SWEEPS["alpha"]]
    found = in_parallel(lambda alpha: _record(replace(settings, alpha=alpha), seed), alphas)
    for alpha, record in zip(alphas, found, strict=True):
        records.append(record)
        tick(f"alpha = {alpha:g}")
    return Table.of(records)


def _record(settings: Settings, seed: int) -> dict[str, Value]:
    """One alpha."""
    labels = torch.tensor([[True, False]]).repeat(1, PAIRS)
    shares, right, taken = [], [], []
    auc = independent_pair_auc(settings.alpha)
    for index in range(settings.draws):
        source = generator(seed, "pairs", settings.alpha, index)
        scores = sample_by_inversion(
            labels, NormalProposals(), alpha=settings.alpha, generator=source
        )
        negative, positive = scores.view(-1, 2).unbind(dim=1)
        shares.append(float((positive > negative).double().mean()))
        right.append(_error(settings, settings.alpha, seed, index))
        taken.append(_error(settings, auc, seed, index))
    record: dict[str, Value] = {"alpha": settings.alpha, "closed_form": auc}
    measured = {"measured": shares, "mse_alpha": right, "mse_auc": taken}
    for name, values in measured.items():
        record.update(_summary(name, torch.tensor(values, dtype=torch.float64)))
    return record


def _error(settings: Settings, assumed: float, seed: int, index: int) -> float:
    """MSE of the Bayesian estimator that assumes an alpha, on a draw with the true one."""
    total, kept = 0.0, 0
    source = generator(seed, "assumed", settings.alpha, index)
    for chunk in observe(settings, source):
        observation, counted = chunk.unlabeled.exp(), chunk.true_negative
        weight = logit_weights(
            chunk.unlabeled, alpha=assumed, beta=settings.beta, tau_plus=settings.tau_plus
        )
        known = counted.any(dim=1)
        supervised = (observation * counted).sum(dim=1) / counted.sum(dim=1)
        error = ((weight * observation).mean(dim=1) - supervised)[known] ** 2
        total, kept = total + float(error.sum()), kept + int(known.sum())
    return total / kept


def _summary(name: str, values: Float[Tensor, " draws"]) -> dict[str, Value]:
    """Mean, band and standard error as columns."""
    found = spread(values)
    return {
        name: found.mean,
        f"{name}_low": found.low,
        f"{name}_high": found.high,
        f"{name}_error": found.error,
    }

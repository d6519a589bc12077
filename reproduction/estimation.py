"""Errors of estimates of alpha, on the paper's generative process and on digits.

The test split of digits is not used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl.diagnostics import Diagnosis, diagnose, score_candidates
from bayescl.estimation import label_free_alpha
from bayescl.losses import BayesianContrastiveLoss
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings
from reproduction.experiments import SCHEMA, Row, draw
from reproduction.process import (
    Settings,
    generator,
    independent_pair_auc,
    mean_and_error,
    observe,
    over_draws,
)

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PRIORS = (0.05, 0.1, 0.3)
STOPS = (0, 2, 5, 10)
SCORED_IMAGES = 512
BASE = ImageSettings(
    loss=LossSettings("bayesian", {"alpha": 0.9, "beta": 0.5, "tau_plus": 0.1}),
    teacher="none",
    evaluate_on="validation",
    epochs=STOPS[-1],
    device="cpu",
)


def process_study(*, draws: int, anchors: int) -> pl.DataFrame:
    """Estimate alpha on the generative process, where it is known.

    Returns one record per alpha and tau_plus: means and standard errors over at least two draws.
    """
    base = Settings(anchors=anchors, candidates=64, positives=1, draws=draws)
    records: list[dict[str, Any]] = []
    for tau_plus, alpha in product(PRIORS, ALPHAS):
        settings = replace(base, alpha=alpha, tau_plus=tau_plus)
        drawn = over_draws(
            partial(_process_draw, settings), settings, 0, "estimation", alpha, tau_plus
        )
        own = {"alpha": alpha, "tau_plus": tau_plus, "closed_form_auc": independent_pair_auc(alpha)}
        records.append({**own, **_summarized(drawn, error_of_mean=True)})
    return pl.DataFrame(records).with_columns(pl.col(pl.Float64).round_sig_figs(6))


def _process_draw(settings: Settings, source: torch.Generator) -> dict[str, float]:
    """Return all measurements of one draw."""
    tau_plus, chunks = settings.tau_plus, list(observe(settings, source))
    positive = torch.cat([chunk.positives[:, 0] for chunk in chunks])
    unlabeled = torch.cat([chunk.unlabeled for chunk in chunks])
    truth = torch.cat([~chunk.true_negative for chunk in chunks])

    def diagnosed(alpha: float) -> Diagnosis:
        """Diagnose a loss with this alpha."""
        loss = BayesianContrastiveLoss(alpha=alpha, tau_plus=tau_plus)
        known: Any = {"layout": "logits", "false_negative": truth}
        return diagnose([score_candidates(loss, positive, unlabeled, **known)])

    found: Any = diagnosed(settings.alpha)
    labeled, free = found.measured, found.label_free
    by_model, by_auc = found.posteriors[0], diagnosed(labeled.authors).posteriors[0]
    return {
        "auc": labeled.auc,
        "alpha_model": labeled.model,
        "alpha_authors": labeled.authors,
        "free_auc": free.auc,
        "free_alpha": free.model,
        "ece": by_model.ece,
        "ece_auc": by_auc.ece,
        "skill": by_model.skill or 0.0,
        "skill_auc": by_auc.skill or 0.0,
    }


def digits_study(seeds: Sequence[int], base: ImageSettings) -> pl.DataFrame:
    """Train on digits, and measure at the stops up to the last epoch.

    Returns one record per epoch: means over seeds and standard deviations.
    """
    stops = [stop for stop in STOPS if stop < base.epochs] + [base.epochs]
    measured: dict[int, list[dict[str, float]]] = {stop: [] for stop in stops}
    for seed in seeds:
        settings = replace(base, seed=seed)
        run = ImageRun(settings)
        with tempfile.TemporaryDirectory() as scratch:
            folder = RunFolder.create(Path(scratch) / "run", run.kind, settings.as_config())
            for stop in stops:
                if stop:  # the learning rate follows the schedule of the whole run
                    run.fit(folder, epochs=stop)
                measured[stop].append(measurements(run))
    records = [
        {"epoch": stop, "seeds": len(rows), **_summarized(rows)} for stop, rows in measured.items()
    ]
    return pl.DataFrame(records).with_columns(pl.col(pl.Float64).round_sig_figs(6))


def measurements(run: ImageRun) -> dict[str, float]:
    """Compare assumed and estimated values with the labels of a run's training images."""
    store, size, model = run.parts.train, run.settings.batch_size, run.model.eval()
    loss: Any = model.loss
    order = torch.randperm(len(store), generator=generator(run.settings.seed, "images"))
    batches = []
    for step, rows in enumerate(order[: max(1, SCORED_IMAGES // size) * size].split(size)):
        with torch.no_grad():
            views = model.embed(store.take(rows), step, with_plain=False)
        batches.append(score_candidates(loss, *views, labels=store.labels[rows]))
    model.train()
    found: Any = diagnose(batches)
    tau_plus = found.measured_tau_plus

    def free_auc(prior: float, of: str) -> float:
        """Compute the label-free AUC over some candidates. A prior of 0 makes no correction."""
        sides = [(one.positive, one.unlabeled, getattr(one, of)) for one in batches]
        return mean(label_free_alpha(*two, tau_plus=prior, valid=it).auc for *two, it in sides)

    *_, by_model, by_auc = found.posteriors
    return {
        "auc": found.measured.auc,
        "free_auc": free_auc(tau_plus, "valid"),
        "bias_true": free_auc(0, "true_negative") - found.measured.auc,
        "bias_false": tau_plus / (1 - tau_plus) * (free_auc(0, "truth") - 0.5),
        "alpha_model": found.measured.model,
        "tau_plus": tau_plus,
        "roc_auc": found.by_weight.roc_auc,
        "weight_false": found.mean_weight_false,
        "weight_true": found.mean_weight_true,
        "effective": found.effective.in_gradient,
        "ece_model": by_model.ece,
        "ece_auc": by_auc.ece,
        "skill_model": by_model.skill or 0.0,
        "skill_auc": by_auc.skill or 0.0,
    }


def _summarized(rows: Sequence[dict[str, float]], *, error_of_mean: bool = False) -> dict[str, Any]:
    """Return the mean of every value, and its standard error or the standard deviation."""
    summary: dict[str, Any] = {}
    for name in rows[0]:
        mean, error = mean_and_error([row[name] for row in rows])
        scale, word = (1, "error") if error_of_mean else (len(rows) ** 0.5, "spread")
        summary |= {name: float(mean), f"{name}_{word}": scale * float(error)}
    return summary


def estimation_figure(process: pl.DataFrame, digits: pl.DataFrame) -> Figure:
    """Plot estimates against alpha on the process, and AUCs against the epoch on digits."""
    rows = list[Row]()
    for record in process.filter(tau_plus=0.1).rows(named=True):
        for name in ("alpha_model", "alpha_authors", "free_alpha"):
            y, error = record[name], 2 * record[f"{name}_error"]
            rows.append(Row("alpha", name, record["alpha"], y, y - error, y + error))
    for record in digits.rows(named=True):
        for name in ("auc", "free_auc"):
            y, spread = record[name], record[f"{name}_spread"]
            rows.append(Row("epoch", name, record["epoch"], y, y - spread, y + spread))
        rows.append(Row("epoch", "largest", record["epoch"], 5 / 6))
    table = pl.DataFrame(rows, SCHEMA, orient="row")
    band = "two standard errors (process), standard deviation over seeds (digits)"
    return draw(table, "Estimates on the process, and on digits during training", "estimate", band)

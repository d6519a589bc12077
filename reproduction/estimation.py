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
from torch import Tensor

from bayescl.diagnostics import Diagnosis, diagnose, score_candidates
from bayescl.estimation import label_free_alpha
from bayescl.losses import BayesianContrastiveLoss
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.items.store import ItemStore
from bayescl_lab.runs.folder import RunFolder, write_json
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings
from bayescl_lab.runs.provenance import provenance
from reproduction.experiments import SCHEMA, Row, draw
from reproduction.process import (
    Settings,
    independent_pair_auc,
    mean_and_error,
    observe,
    over_draws,
)

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PRIORS = (0.05, 0.1, 0.3)
STOPS = (0, 2, 5, 10)
SCORED_IMAGES = 512
VARIANTS = {
    "InfoNCE": LossSettings("info_nce"),
    "fixed": LossSettings("bayesian", {"alpha": 0.9, "beta": 0.5, "tau_plus": 0.1}),
}
BASE = ImageSettings(
    loss=VARIANTS["fixed"],
    evaluate_on="validation",
    epochs=STOPS[-1],
    device="cpu",
)
SHOWN_PRIOR = 0.1
CURVES = {
    "alpha_model": "with labels, AUC inverted (.model)",
    "alpha_authors": "with labels, the AUC itself (.authors)",
    "free_alpha": "without labels, AUC inverted",
    "auc": "AUC with labels",
    "free_auc": "AUC without labels, of views",
}
"""Titles of the curves of the figure, by column of the tables."""


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

    found = diagnosed(settings.alpha)
    labeled, free = found.measured, found.label_free
    if labeled is None or free is None:
        raise ValueError("the study needs candidates of both kinds")
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


def digits_study(folder: Path, *, seeds: Sequence[int], base: ImageSettings = BASE) -> pl.DataFrame:
    """Train on digits, and measure at the stops up to the last epoch.

    Returns one record per variant and epoch: means over seeds and standard deviations.
    """
    stops = [stop for stop in STOPS if stop < base.epochs] + [base.epochs]
    measured: dict[tuple[str, int], list[dict[str, float]]] = {}
    for (name, loss), seed in product(VARIANTS.items(), seeds):
        settings = replace(base, seed=seed, loss=loss)
        run = ImageRun(settings)
        out = RunFolder.create(folder / f"{name}-{seed}", run.kind, settings.as_config())
        for stop in stops:
            if stop:  # the learning rate follows the whole run's course
                run.fit(out, epochs=stop)
            measured.setdefault((name, stop), []).append(measurements(run))
    records = [
        {"variant": name, "epoch": stop, "seeds": len(rows), **_summarized(rows)}
        for (name, stop), rows in measured.items()
    ]
    return pl.DataFrame(records).with_columns(pl.col(pl.Float64).round_sig_figs(6))


def measurements(run: ImageRun) -> dict[str, float]:
    """Compare assumed and estimated values with the labels of a run's training images."""
    model, store, seed = run.model, run.parts.train, run.settings.seed
    loss: Any = model.loss
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 5))
    order, size = torch.randperm(len(store), generator=generator), run.settings.batch_size
    batches = []
    for step, rows in enumerate(order[: max(1, SCORED_IMAGES // size) * size].split(size)):
        images = store.subset(rows)
        views = embedded_views(model, images, derived_seed(seed, Purpose.ESTIMATES, step, 6))
        batches.append(score_candidates(loss, *views, labels=images.labels))
    found = diagnose(batches)
    if found.measured is None or found.measured_tau_plus is None or found.by_weight is None:
        raise ValueError("the study needs labels of several classes")
    tau_plus = found.measured_tau_plus
    free, over_true, over_false = [], [], []
    for scored in batches:
        sides, valid = (scored.positive, scored.unlabeled), scored.valid
        free.append(label_free_alpha(*sides, tau_plus=tau_plus, valid=valid).auc)
        # At a prior of 0 it is how often a positive outscores candidates, without a correction.
        over_true.append(label_free_alpha(*sides, tau_plus=0, valid=scored.true_negative).auc)
        over_false.append(label_free_alpha(*sides, tau_plus=0, valid=scored.truth).auc)
    posteriors = {check.source: check for check in found.posteriors}
    by_model = posteriors["measured, model reading"]
    by_auc = posteriors["measured, authors' reading"]
    return {
        # InfoNCE is the Bayesian loss at alpha = beta = 0.5.
        "alpha_in_use": float(getattr(loss, "alpha", 0.5)),
        "auc": found.measured.auc,
        "free_auc": mean(free),
        "bias_true": mean(over_true) - found.measured.auc,
        "bias_false": tau_plus / (1 - tau_plus) * (mean(over_false) - 0.5),
        "alpha_model": found.measured.model,
        "tau_plus": tau_plus,
        "roc_auc": found.by_weight.roc_auc,
        "average_precision": found.by_weight.average_precision,
        "weight_false": found.mean_weight_false or 0.0,
        "weight_true": found.mean_weight_true or 0.0,
        "effective": found.effective.in_gradient,
        "effective_unweighted": found.effective.in_gradient_unweighted,
        "ece_model": by_model.ece,
        "ece_auc": by_auc.ece,
        "skill_model": by_model.skill or 0.0,
        "skill_auc": by_auc.skill or 0.0,
    }


@torch.no_grad()
def embedded_views(model: SimCLR, images: ItemStore, seed: int) -> list[Tensor]:
    """Embed two augmented views of each image in ``eval()`` mode, in float32."""
    model.eval()
    pixels, views = images.take(torch.arange(len(images), device=images.device)), []
    for view in (1, 2):
        drawn = model.augmentation(pixels, seed=derived_seed(seed, Purpose.ESTIMATES, 0, view, 0))
        views.append(model.projection_head(model.encode_views(drawn)).float())
    model.train()
    return views


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
    for record in process.filter(tau_plus=SHOWN_PRIOR).rows(named=True):
        for name in ("alpha_model", "alpha_authors", "free_alpha"):
            y, error = record[name], 2 * record[f"{name}_error"]
            rows.append(("alpha", CURVES[name], record["alpha"], y, y - error, y + error, error))
    for record in digits.rows(named=True):
        x, loss = record["epoch"], "InfoNCE" if record["variant"] == "InfoNCE" else "Bayesian"
        for name in ("auc", "free_auc"):
            y, error = record[name], record[f"{name}_spread"]
            curve = f"{CURVES[name]}, {loss}"
            rows.append(("epoch", curve, x, y, y - error, y + error, error))
        rows.append(("epoch", "largest", x, 5 / 6, None, None, None))
    table = pl.DataFrame(rows, SCHEMA, orient="row")
    band = "two standard errors (process), standard deviation over seeds (digits)"
    return draw(table, "Estimates on the process, and on digits during training", "estimate", band)


def study(out: Path, *, draws: int, anchors: int, seeds: int, epochs: int) -> None:
    """Run both studies and write their tables and figure to a folder."""
    base = replace(BASE, epochs=epochs)
    tables = {"process": process_study(draws=draws, anchors=anchors)}
    with tempfile.TemporaryDirectory() as scratch:
        tables["digits"] = digits_study(Path(scratch), seeds=range(seeds), base=base)
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_atomically(out / f"{name}.csv", table.write_csv())
    save_figure(estimation_figure(**tables), out / "estimation.png")
    write_json(out / "study.json", {**provenance(), "settings": base.as_config()})

"""What the table of each experiment says, in a sentence or two that follow from its figures."""

from __future__ import annotations

import polars as pl

from bayescl_lab.paper.simulation.estimators import TITLES
from bayescl_lab.paper.simulation.frames import with_error

UNLIKELY = 0.001
"""A p-value below this speaks against a sampler."""


def of_acceptance(table: pl.DataFrame) -> str:
    """Do both samplers draw from the model?"""
    judged = []
    for name, column in (("Accept-reject", "rejection_p"), ("inversion", "inversion_p")):
        lowest = min(table[column])
        follows = "follows" if lowest > UNLIKELY else "does NOT follow"
        judged.append(
            f"{name} {follows} the closed form (smallest of {len(table)} p-values {lowest:.3f})"
        )
    return f"{' and '.join(judged)}."


def of_pair_order(table: pl.DataFrame) -> str:
    """Is alpha the AUC of independent pairs?"""
    worst = table.sort(pl.col("alpha") - pl.col("measured")).rows(named=True)[-1]
    differs = worst["alpha"] > worst["measured"] + 2 * worst["measured_error"]
    return (
        f"alpha is {'NOT ' * differs}the AUC of independent pairs: at alpha = "
        f"{worst['alpha']:g} that is "
        f"{with_error(worst, 'measured')}, in closed form {worst['closed_form']:.4f}."
    )


def of_errors(table: pl.DataFrame) -> str:
    """Which estimator errs least, point by point?"""
    shown = table.filter(pl.col("estimator").is_in(["biased", "debiased", "hard", "bayesian_mid"]))
    best = shown.filter(pl.col("mse") == pl.col("mse").min().over("parameter", "value"))
    points = len(shown.unique(["parameter", "value"]))
    counts = best["estimator"].value_counts(sort=True).rows()
    each = ", ".join(f"{TITLES[name]} {count}" for name, count in counts)
    return f"Smallest mean error at {points} swept points (ties count for each): {each}."


def of_verdicts(table: pl.DataFrame) -> str:
    """Where is the Bayesian error below its rivals', and where is it not?"""
    sentences = []
    for estimator in ("bayesian_mid", "bayesian_upper"):
        here = table.filter(estimator=estimator)
        above = here.filter(verdict="above")
        tied, below = (len(here.filter(verdict=word)) for word in ("tied", "below"))
        at = dict.fromkeys(f"{one['parameter']} = {one['value']:g}" for one in above.to_dicts())
        where = f" (at {', '.join(at)})" if at else ""
        sentences.append(
            f"{TITLES[estimator]}: error below the rival's in {below} of {len(here)} comparisons, "
            f"tied in {tied}, above in {len(above)}{where}."
        )
    return " ".join(sentences)


def of_means(table: pl.DataFrame) -> str:
    """How far are the estimators' means from the supervised one's?"""
    names = ("biased", "debiased", "bayesian_upper", "bayesian_mid")
    largest = {
        name: table.filter(estimator=name).sort(pl.col("bias").abs()).rows(named=True)[-1]
        for name in names
    }
    each = ", ".join(f"{TITLES[name]} {with_error(one, 'bias')}" for name, one in largest.items())
    return f"Largest difference to the supervised mean: {each}."


def of_reliability(table: pl.DataFrame) -> str:
    """How far is the posterior from the frequency of true negatives?"""
    each = []
    for key, here in table.group_by("ranks", "candidates", maintain_order=True):
        worst = here.sort(pl.col("excess").abs()).rows(named=True)[-1]
        each.append(f"{abs(worst['excess']):.3f} with {key[0]} ranks of {key[1]} candidates")
    return f"Posterior and share of true negatives differ by at most {', '.join(each)}."


def of_convergence(table: pl.DataFrame) -> str:
    """Does the Bayesian loss tend to the supervised loss?"""
    most = table.filter(pl.col("candidates") == pl.col("candidates").max())
    each = ", ".join(
        f"{TITLES[one['loss']]} {with_error(one, 'gap')}" for one in most.rows(named=True)
    )
    return f"Difference to the supervised loss at N = {most['candidates'][0]}, in nats: {each}."


def of_error_bound(table: pl.DataFrame) -> str:
    """Does the error stay below the bounds?"""
    above = table.filter(pl.col("error") > pl.col("bound"))
    priors = ", ".join(f"{prior:g}" for prior in above["tau_plus"].unique().sort())
    mended = len(table.filter(pl.col("error") > pl.col("mended_bound")))
    where = f": it is above at tau_plus = {priors}" if priors else ""
    return (
        f"The error is below the stated bound in {len(table) - len(above)} of {len(table)} "
        f"cases{where}. It is above the corrected bound in {mended}."
    )


def of_latent(table: pl.DataFrame) -> str:
    """What do fitted components find?"""
    names = {"together": "2, 3, 4 and 6 per class", "1": "one per class", "0.5": "half as many"}
    here = table.filter(swept="components", classes="equal")
    each = [
        f"{names[one['components']]}: precision {one['precision']:.0%}, recall "
        f"{one['recall']:.0%}, agreement of views {one['agreement']:.2f}"
        for one in here.rows(named=True)
        if one["components"] in names and one["precision"] is not None
    ]
    return f"Pairs with a posterior above 1/2, by components. {'; '.join(each)}."


def of_latent_calibration(table: pl.DataFrame) -> str:
    """How far is the posterior of latent classes from the frequency of pairs of one class?"""
    gap = (pl.col("share") - pl.col("posterior")).abs()
    errors = table.group_by("components", maintain_order=True).agg(
        (gap * pl.col("pairs")).sum() / pl.col("pairs").sum()
    )
    each = ", ".join(f"{name} {error:.3f}" for name, error in errors.iter_rows())
    return f"Mean distance of posterior and frequency, by components per class: {each}."

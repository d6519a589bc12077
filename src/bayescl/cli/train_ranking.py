"""``bayescl train ranking``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def command(
    *,
    data: str = "ml-100k",
    split: str | None = None,
    split_seed: int = 0,
    user_column: str | None = None,
    item_column: str | None = None,
    rating_column: str | None = None,
    timestamp_column: str | None = None,
    min_rating: float | None = None,
    k_core: int = 0,
    separator: str | None = None,
    test_data: str | None = None,
    encoder: str = "mf",
    dim: int = 64,
    layers: int = 2,
    score: str = "cosine",
    item_norm_exponent: float = 0.0,
    initial_scale: float = 0.1,
    regularization: float = 300.0,
    loss: str = "bayesian",
    temperature: float | None = None,
    tau_plus: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    concentration: float | None = None,
    candidates: str = "shared",
    count: int = 256,
    mask_known: bool = True,
    extra_positives: int = 0,
    epochs: int = 20,
    batch_size: int = 1024,
    lr: float = 5e-3,
    weight_decay: float = 1e-6,
    schedule: str = "constant",
    watch_every: int = 0,
    patience: int = 0,
    protocol: str = "standard",
    evaluate_on: str = "test",
    seed: int = 0,
    device: str = "auto",
    tensorboard: bool = False,
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Train a recommender on interactions, and judge it by a full ranking.

    Args:
        data: name of a data set (see "bayescl data list"), or the path of a table (CSV, TSV,
            Parquet, RecBole's .inter) or of a folder with train.txt and test.txt.
        split: per-user (at random 4:1), random, last (by time), given, or author (ml-100k); given
            where the files have a test part, else per-user, unless said otherwise.
        split_seed: fixes what a split draws.
        user_column: a table's column of users; "user" unless given.
        item_column: a table's column of items; "item" unless given.
        rating_column: a table's column of ratings; "rating" unless given.
        timestamp_column: a table's column of times; "timestamp" unless given.
        min_rating: the lowest rating that counts; every one unless given.
        k_core: fewest interactions of a user or item that stays.
        separator: what stands between a table's values; found out unless given.
        test_data: a second table with the test part.
        encoder: mf or lightgcn; or, without any training, the baselines popularity and ease.
        dim: coordinates of an embedding.
        layers: steps over the graph of users and items (lightgcn).
        score: cosine, or inner for inner products.
        item_norm_exponent: cosines are multiplied by this power of an item's length when items are
            ranked, which favours popular ones; training does not depend on it.
        initial_scale: standard deviation of each coordinate at the start.
        regularization: the penalty of ease.
        loss: info_nce, debiased, hard, bayesian or bpr.
        temperature: softmax scale; 0.2 with cosines and 1 with inner products unless given.
        tau_plus: prior probability that a candidate is a positive (debiased, hard, bayesian); the
            density of the interactions unless given.
        alpha: probability that a positive outscores a negative, 0.5 to 1 (bayesian).
        beta: hardness, 0.5 (none) to 1 (bayesian).
        concentration: exponent of the hardness weights, 0 or more (hard).
        candidates: shared (drawn once per batch), per-pair, in-batch or all.
        count: candidates that are drawn, per batch or per pair.
        mask_known: whether items that a user has never count against the user.
        extra_positives: further items that a pair's user has, drawn anew in every step, behind
            the correction of the debiased loss.
        epochs: passes over the training pairs, at most.
        batch_size: pairs per step.
        lr: learning rate of Adam.
        weight_decay: of Adam.
        schedule: constant, or cosine for a learning rate that falls to 0.
        watch_every: epochs between looks at a validation part, which is taken out of training and
            chooses the epoch; 0 for none, then the last epoch is kept.
        patience: looks without a better one after which training stops; 0 never stops early.
        protocol: standard; or paper, for the best epoch on test, of each metric separately: that
            inflates figures, and results are marked.
        evaluate_on: "test", or "validation" to choose settings: training then leaves that part out.
        seed: of weights, order of pairs, and candidates.
        device: auto, cpu or cuda.
        tensorboard: write the metrics for TensorBoard too.
        out: the run folder; a new one under runs/ unless given.
        resume: go on with the run in the folder, with the settings it has.
    """
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._ranking import default_folder, print_result
    from bayescl.runs.loop import tensorboard_logger
    from bayescl.runs.losses import RankingLoss
    from bayescl.runs.ranking.baselines import BASELINES, BaselineSettings, fit_baseline
    from bayescl.runs.ranking.data import RankingData
    from bayescl.runs.ranking.run import train_ranking
    from bayescl.runs.ranking.settings import RankingSettings

    read = RankingData(
        data=data,
        split=split,
        split_seed=split_seed,
        user_column=user_column,
        item_column=item_column,
        rating_column=rating_column,
        timestamp_column=timestamp_column,
        min_rating=min_rating,
        k_core=k_core,
        separator=separator,
        test_data=test_data,
    )
    now = datetime.now()
    if encoder in BASELINES:
        folder = Path(out) if out is not None else default_folder(f"{encoder}-{data}", now)
        baseline = BaselineSettings(encoder, read, regularization, evaluate_on)
        print_result(console(), fit_baseline(baseline, folder, resume=resume), folder)
        return 0
    given = {
        "temperature": temperature,
        "tau_plus": tau_plus,
        "alpha": alpha,
        "beta": beta,
        "concentration": concentration,
    }
    settings = RankingSettings(
        loss=RankingLoss(loss, {name: x for name, x in given.items() if x is not None}),
        data=read,
        encoder=encoder,
        dim=dim,
        layers=layers,
        score=score,
        item_norm_exponent=item_norm_exponent,
        initial_scale=initial_scale,
        candidates=candidates,
        count=count,
        mask_known=mask_known,
        extra_positives=extra_positives,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        schedule=schedule,
        epochs=epochs,
        evaluate_on=evaluate_on,
        watch_every=watch_every,
        patience=patience,
        protocol=protocol,
        seed=seed,
        device=device,
    )
    folder = Path(out) if out is not None else default_folder(f"{encoder}-{loss}-{data}", now)
    with EpochBar(epochs) as bar:
        result = train_ranking(
            settings,
            folder,
            resume=resume,
            progress=bar.epoch_done,
            pulse=lambda *state: bar.step_done(*state, per_step=batch_size, what="pairs"),
            loggers=[tensorboard_logger(folder)] if tensorboard else [],
        )
    print_result(console(), result, folder)
    return 0

"""``bayescl train ranking``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from bayescl_lab._fields import NonNegative, Positive
from bayescl_lab.cli._folders import Metrics, Place
from bayescl_lab.cli._losses import (
    NO_RANKING_HYPERPARAMETERS,
    RankingHyperparameters,
    RankingLossName,
    given,
)
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT, Typed
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.processes import Processes
from bayescl_lab.runs.ranking.data import RankingData
from bayescl_lab.runs.ranking.settings import (
    BASELINES,
    DEFAULT_REGULARIZATION,
    IALS_NAME,
    AnyBaseline,
    BaselineSettings,
    IALSSettings,
    RankingOptions,
    RankingSettings,
)

if TYPE_CHECKING:
    _Recommender = Any
else:
    _Recommender = Literal[tuple(ENCODERS) + BASELINES + (IALS_NAME,)]


def command(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: _Recommender = "mf",
    loss: RankingLossName = "bayesian",
    hyperparameters: RankingHyperparameters = NO_RANKING_HYPERPARAMETERS,
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    regularization: Positive | None = None,
    unobserved_weight: Positive = 0.1,
    frequency_exponent: NonNegative = 1.0,
    typed: Typed,
    processes: Annotated[Processes, FLAT] = Processes(),
    metrics: Annotated[Metrics, CIRCUMSTANCES] = Metrics(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Train a recommender on interactions, and evaluate it by full ranking.

    Args:
        data: the data set and how to read it.
        encoder: model of the embeddings; or a model that is fitted without a loss: ials, ease or
            popularity.
        loss: the loss to train mf and lightgcn with. Its hyper-parameters follow. Temperature
            defaults to 0.2 with cosines and 1 with inner products, beta to 0.5, concentration to
            0.03, and tau_plus to the density of the interactions (debiased, hard: a tenth of it).
        hyperparameters: those given.
        settings: settings of a trained recommender.
        regularization: L2 penalty of ease and ials; default: 300 and 0.03.
        unobserved_weight: weight of all pairs in ials, beside the weight 1 of interactions.
        frequency_exponent: how the penalty of ials grows with the weight of a row's pairs.
        typed: options on the command line.
        processes: the devices that train together.
        metrics: where metrics are logged.
        place: the run folder.
    """
    from bayescl_lab.cli._console import EpochBar
    from bayescl_lab.cli._tables import print_guesses, print_ranking
    from bayescl_lab.runs.losses import RankingLoss
    from bayescl_lab.runs.ranking.baselines import fit_baseline
    from bayescl_lab.runs.ranking.run import train_ranking

    is_first = processes.this().rank == 0
    if not place.resume and is_first:
        print_guesses(data.guessed_columns())
    if encoder not in ENCODERS:
        if not is_first:  # a baseline needs only one process
            return 0
        if unused := typed & {"loss", *vars(hyperparameters)}:
            option = min(unused).replace("_", "-")
            raise ValueError(f"{encoder} is fitted without a loss: leave out --{option}")
        penalty = regularization or DEFAULT_REGULARIZATION.get(encoder, 1.0)
        fitted: AnyBaseline
        if encoder == IALS_NAME:
            fitted = IALSSettings(
                data,
                settings.dim,
                penalty,
                unobserved_weight,
                frequency_exponent,
                settings.epochs,
                settings.seed,
                settings.evaluate_on,
            )
        else:
            fitted = BaselineSettings(encoder, data, penalty, settings.evaluate_on)
        folder = place.folder(f"{encoder}-{data.data}")
        result = fit_baseline(fitted, folder, resume=place.resume, baselines=True)
        print_ranking(result, folder)
        return 0
    run = RankingSettings(
        **vars(settings),
        loss=RankingLoss(loss, given(hyperparameters)),
        data=data,
        encoder=encoder,
        processes=processes,
    )
    folder = place.folder(f"{encoder}-{loss}-{data.data}")
    with EpochBar(run.epochs) as bar, place.interruptible("train ranking", folder):
        result = train_ranking(
            run,
            folder,
            resume=place.resume,
            baselines=True,
            progress=bar.epoch_done,
            pulse=lambda *state: bar.step_done(*state, per_step=run.batch_size, what="pairs"),
            loggers=metrics.loggers(folder),
        )
    if result:  # the first process shows it
        print_ranking(result, folder)
    return 0

"""``bayescl train``: train an encoder on images or arrays, or a recommender."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from bayescl_lab._types import Config
from bayescl_lab.cli._console import Bar, print_guesses, print_result, say
from bayescl_lab.cli._options import FLAT, RUNTIME_OPTIONS, Called, Hyperparameters, RunOptions
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.arrays.array_settings import ArrayOptions, ArraySettings
from bayescl_lab.runs.encoder_settings import EncoderOptions, EncoderSettings
from bayescl_lab.runs.images.image_settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import (
    TEACHER,
    LossSettings,
    RankingLossSettings,
    loss_of,
    methods_with_teacher,
    view_methods,
)
from bayescl_lab.runs.ranking.ranking_settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    from bayescl_lab.runs.parallel import Train
    from bayescl_lab.runs.settings import TrainedSettings


def arrays(
    *,
    loss: Literal[view_methods()] = "info_nce+teacher",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ArrayOptions, FLAT],
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    called: Called,
) -> Config | None:
    """Train an encoder on rows of numbers or signals with one loss, and evaluate it.

    Args:
        loss: Loss to train with. The suffix "+domains" sets --domains. "+teacher" adds a teacher,
            see --teacher. The next options are hyper-parameters.
    """
    return _train_encoder(ArraySettings, settings, loss, hyperparameters, run_options, called)


def images(
    *,
    loss: Literal[view_methods()] = "info_nce+teacher",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    called: Called,
) -> Config | None:
    """Train an encoder on images with one loss, and evaluate it with every probe.

    Args:
        loss: Loss to train with. The suffix "+domains" sets --domains. "+teacher" adds a teacher,
            see --teacher. The next options are hyper-parameters.
    """
    return _train_encoder(ImageSettings, settings, loss, hyperparameters, run_options, called)


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    loss: Literal[tuple(RankingLossSettings.classes())] = "info_nce",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    called: Called,
) -> Config | None:
    """Train a recommender on interactions, and evaluate it by full ranking.

    Args:
        encoder: Model of the embeddings.
        loss: Loss to train with. Its hyper-parameters follow. Default temperature: 0.15. Default
            beta: 0.5. Default concentration: 0.03. Default tau_plus: the density of the
            interactions (debiased, hard: a tenth of it).
    """
    from bayescl_lab.runs.ranking.ranking_run import train_ranking

    chosen = RankingLossSettings(loss, vars(hyperparameters))
    run = RankingSettings(**vars(settings), loss=chosen, data=data, encoder=encoder)
    if not (called.print_config or run_options.resume or run.this_process().rank):
        print_guesses(data)
    train = partial(train_ranking, baselines=True)
    return _train(train, run, f"{encoder}-{loss}-{data.data}", run_options, called)


def _train_encoder(
    settings_type: type[EncoderSettings],
    options: EncoderOptions,
    loss: str,
    hyperparameters: Hyperparameters,
    run_options: RunOptions,
    called: Called,
) -> Config | None:
    """Train on images or arrays, or return the settings. Only typed names import custom code."""
    from bayescl_lab.runs.loading import train_encoder

    (method,) = methods_with_teacher([loss], options.teacher)
    if method.endswith(TEACHER) and options.positive_share == 1:
        raise ValueError(f"the teacher of {method} has no effect if positive_share is 1")
    first = settings_type(**vars(options), loss=LossSettings(loss_of(method)))
    run = first.with_method(method).with_values(vars(hyperparameters))
    train = partial(train_encoder, own_code=called.typed)
    return _train(train, run, f"{run.method}-{Path(run.where).stem}", run_options, called)


def _train(
    train: Train, run: TrainedSettings, name: str, run_options: RunOptions, called: Called
) -> Config | None:
    """Train with a progress bar and print the result in the first process, or return settings."""
    from bayescl_lab.report.tables import loss_title

    if called.print_config:
        return run.as_config()
    folder, rank = run_options.folder(name), run.this_process().rank
    with Bar(run.epochs) as bar, run_options.interruptible(f"bayescl {run.kind}", folder, rank):
        result = train(run, folder, resume=run_options.resume, progress=bar.trained)
    if rank == 0:
        (method, row), *_ = result.rows.items()
        print_result(f"{loss_title(method)} on {result.data}, {result.part} split", result)
        if row.seconds is not None:
            say(f"{row.seconds.mean:.2f} seconds per epoch")
        say(f"run folder: {folder}")
    return None

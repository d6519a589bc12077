"""``bayescl train``: train an encoder on images or arrays, or a recommender."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from bayescl_lab._fields import Count
from bayescl_lab._types import Config
from bayescl_lab.cli._console import Bar, print_guesses, say
from bayescl_lab.cli._options import (
    FLAT,
    RUNTIME_OPTION,
    RUNTIME_OPTIONS,
    Hyperparameters,
    PrintConfig,
    RunOptions,
    Typed,
)
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
    from collections.abc import Callable

    from bayescl_lab.runs.result import Result
    from bayescl_lab.runs.settings import TrainedSettings

AnySettings = TypeVar("AnySettings", bound=EncoderSettings)


def arrays(
    *,
    loss: Literal[view_methods()] = "info_nce+teacher",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ArrayOptions, FLAT],
    typed: Typed,
    checkpoint_every: Annotated[Count, RUNTIME_OPTION] = 1,
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
) -> Config | None:
    """Train an encoder on rows of numbers or signals with one loss, and evaluate it.

    Args:
        loss: Loss to train with. The suffix "+teacher" adds a teacher, see --teacher. The
            hyper-parameters of the loss follow.
        checkpoint_every: Number of epochs between checkpoints.
    """
    from bayescl_lab.runs.arrays.array_run import train_arrays
    from bayescl_lab.runs.own_code import own_encoder, own_object

    run = _with_method(ArraySettings, settings, loss, hyperparameters)
    if print_config:
        return run.as_config()
    encoder = own_encoder(run.encoder, run.seed) if "encoder" in typed else None
    view = own_object("views", run.views) if "views" in typed else None
    folder = run_options.folder(f"{run.method}-{Path(run.data).stem}")
    options: Config = {"encoder": encoder, "view": view, "checkpoint_every": checkpoint_every}
    _train("train arrays", train_arrays, run, folder, run_options, **options)
    return None


def images(
    *,
    loss: Literal[view_methods()] = "info_nce+teacher",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    typed: Typed,
    checkpoint_every: Annotated[Count, RUNTIME_OPTION] = 1,
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
) -> Config | None:
    """Train an encoder on images with one loss, and evaluate it with every probe.

    Args:
        loss: Loss to train with. The suffix "+teacher" adds a teacher, see --teacher. The
            hyper-parameters of the loss follow.
        checkpoint_every: Number of epochs between checkpoints.
    """
    from bayescl_lab.runs.images.image_run import train_images
    from bayescl_lab.runs.own_code import own_encoder

    run = _with_method(ImageSettings, settings, loss, hyperparameters)
    if print_config:
        return run.as_config()
    encoder = own_encoder(run.encoder, run.seed) if "encoder" in typed else None
    folder = run_options.folder(f"{run.method}-{run.data}")
    options: Config = {"encoder": encoder, "checkpoint_every": checkpoint_every}
    _train("train images", train_images, run, folder, run_options, **options)
    return None


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    loss: Literal[tuple(RankingLossSettings.classes())] = "info_nce",  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
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
    if print_config:
        return run.as_config()
    if not run_options.resume and settings.this_process().rank == 0:
        print_guesses(data)
    folder = run_options.folder(f"{encoder}-{loss}-{data.data}")
    _train("train ranking", train_ranking, run, folder, run_options, baselines=True)
    return None


def _with_method(
    settings_type: type[AnySettings],
    settings: EncoderOptions,
    loss: str,
    hyperparameters: Hyperparameters,
) -> AnySettings:
    """Return all settings of a run, given the options and the name of the loss."""
    from bayescl_lab.compare.plan import with_values

    (method,) = methods_with_teacher([loss], settings.teacher)
    if method.endswith(TEACHER) and settings.positive_share == 1:
        raise ValueError(f"the teacher of {method} has no effect if positive_share is 1")
    first = settings_type(**vars(settings), loss=LossSettings(loss_of(method)))
    return with_values(first.with_method(method), vars(hyperparameters))


def _train(
    kind: str,
    train: Callable[..., Result],
    run: TrainedSettings,
    folder: Path,
    run_options: RunOptions,
    **options: object,
) -> None:
    """Train with a progress bar, and print the result in the first process."""
    rank = run.this_process().rank
    with Bar(run.epochs) as bar, run_options.interruptible(f"bayescl {kind}", folder, rank):
        result = train(run, folder, resume=run_options.resume, progress=bar.trained, **options)
    if rank == 0:
        _print_run(result, folder)


def _print_run(result: Result, folder: Path) -> None:
    """Print a run's result and remarks on its data."""
    from bayescl_lab.cli.compare import print_result
    from bayescl_lab.report.tables import loss_title

    (name, row), *_ = result.rows.items()
    print_result(f"{loss_title(name)} on {result.data}, {result.part} split", result)
    if row.seconds is not None:
        say(f"{row.seconds.mean:.2f} seconds per epoch")
    say(f"run folder: {folder}")

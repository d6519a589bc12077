"""``bayescl train images``."""

from __future__ import annotations

from typing import Annotated

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count
from bayescl_lab.cli._folders import Metrics, Place
from bayescl_lab.cli._losses import (
    NO_IMAGE_HYPERPARAMETERS,
    ImageHyperparameters,
    ImageLoss,
    given,
)
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT, Typed
from bayescl_lab.runs.images.settings import ImageOptions, ImageSettings


@dataclass(frozen=True)
class Saving:
    """How often a run saves checkpoints.

    Attributes:
        checkpoint_every: epochs between checkpoints.
        checkpoint_every_steps: steps between further checkpoints within an epoch; default: none.
    """

    checkpoint_every: Count = 1
    checkpoint_every_steps: Count | None = None


def command(
    *,
    loss: ImageLoss = "bayesian",
    hyperparameters: ImageHyperparameters = NO_IMAGE_HYPERPARAMETERS,
    num_classes: int | None = None,
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    typed: Typed,
    saving: Annotated[Saving, CIRCUMSTANCES] = Saving(),
    metrics: Annotated[Metrics, CIRCUMSTANCES] = Metrics(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Train an encoder on images with one loss, and evaluate it with every probe.

    Args:
        loss: the loss to train with. Its hyper-parameters follow; their defaults are those recorded
            for the data set, if any, else the loss's own.
        hyperparameters: those given.
        num_classes: sets the default of tau_plus to 1/C.
        settings: settings of the run.
        typed: options on the command line.
        saving: how often it saves checkpoints.
        metrics: where metrics are logged.
        place: the run folder.
    """
    from bayescl_lab.cli._console import EpochBar, console, say
    from bayescl_lab.cli._tables import print_verdict, probe_table
    from bayescl_lab.compare.images import recorded_hyperparameters
    from bayescl_lab.runs.images.encoder import own_encoder
    from bayescl_lab.runs.images.run import train_images
    from bayescl_lab.runs.losses import LossSettings, choose_hyperparameters

    data = settings.data
    recorded = {} if place.resume else recorded_hyperparameters(data, loss)
    chosen = choose_hyperparameters(
        LossSettings, loss, given(hyperparameters), num_classes=num_classes, start=recorded
    )
    run = ImageSettings(**vars(settings), loss=chosen)
    own = own_encoder(run.encoder, run.seed) if "encoder" in typed else None
    folder = place.folder(f"{loss}-{data}")
    with EpochBar(run.epochs) as bar, place.interruptible("train images", folder):
        result = train_images(
            run,
            folder,
            encoder=own,
            resume=place.resume,
            checkpoint_every=saving.checkpoint_every,
            checkpoint_every_steps=saving.checkpoint_every_steps,
            progress=bar.epoch_done,
            pulse=lambda *state: bar.step_done(*state, per_step=run.batch_size),
            loggers=metrics.loggers(folder),
        )
    if not result:  # the first process shows it
        return 0
    title = f"{loss} on {data}, {run.evaluate_on} part"
    console().print(probe_table(result["probes"], title=title))
    say(*result.get("remarks", ()))
    print_verdict(loss, folder)
    say(f"{result['seconds_per_epoch']:.2f} seconds per epoch; run folder: {folder}")
    return 0

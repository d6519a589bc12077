"""``bayescl compare images``."""

from __future__ import annotations

from typing import Annotated

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.cli._losses import NO_IMAGE_HYPERPARAMETERS, ImageHyperparameters, given
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT, ByLoss
from bayescl_lab.runs.images.settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import LossSettings


def command(
    *,
    losses: Words = (
        "info_nce",
        "debiased",
        "hard",
        "bayesian",
        "latent",
        "oracle",
        "attracting_oracle",
    ),
    seeds: Count = 4,
    tune: Tries = 0,
    shared: ImageHyperparameters = NO_IMAGE_HYPERPARAMETERS,
    num_classes: int | None = None,
    hyperparameters: ByLoss | None = None,
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    workers: Annotated[Workers, CIRCUMSTANCES] = Workers(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Train several losses over several seeds and compare their encoders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: comma-separated names. Hyper-parameters apply to every loss that takes them; their
            defaults are those recorded for the data set, or else the loss's own. All losses have
            InfoNCE's temperature if none is given or recorded.
        seeds: number of seeds; --seed is the first of them.
        tune: first choose the best of this many settings for each loss on a validation part held
            out of training: temperatures, then its own hyper-parameters.
        shared: hyper-parameters of every loss that takes them.
        num_classes: sets tau_plus to 1/C unless it is set explicitly.
        hyperparameters: hyper-parameters of single losses, by loss and name; for configuration
            files.
        settings: of every run.
        workers: parallel runs.
        place: the folder; finished runs in it are kept.
    """
    from bayescl_lab.cli._comparison import finish, print_comparison, run
    from bayescl_lab.compare.comparison import settle_losses, with_alpha
    from bayescl_lab.compare.images import ImageComparison, recorded_hyperparameters
    from bayescl_lab.report.images.figure import draw_comparison
    from bayescl_lab.report.images.markdown import comparison_markdown
    from bayescl_lab.report.titles import data_title

    data = settings.data
    settled = settle_losses(
        LossSettings,
        losses,
        given=given(shared),
        num_classes=num_classes,
        hyperparameters=hyperparameters,
        recorded=lambda loss: recorded_hyperparameters(data, loss),
    )
    first = ImageSettings(**vars(settings), loss=with_alpha(settled))
    comparison = ImageComparison(losses=settled, seeds=seeds, shared=first, tune=tune)
    folder = place.folder(f"compare-{data}")
    result = run(comparison, folder, place, workers)
    draw_comparison(result, folder / "comparison.png")
    print_comparison(result)
    caption = f"{data_title(data)}, {settings.evaluate_on} part, accuracy in percent:"
    finish(folder, f"{caption}\n\n{comparison_markdown(result)}")
    return 0

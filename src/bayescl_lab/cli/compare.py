"""``bayescl compare``: comparison of losses over seeds, for image encoders or recommenders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.cli._console import Bar, print_guesses, say, show
from bayescl_lab.cli._losses import IMAGE_HYPERPARAMETERS, RANKING_HYPERPARAMETERS
from bayescl_lab.cli._options import (
    FLAT,
    RUNTIME_OPTIONS,
    ByLoss,
    Place,
    Typed,
    Workers,
    usual_workers,
)
from bayescl_lab.compare.summary import SPREAD
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.images.settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import BASELINE, IMAGE_METHODS, SHARE, LossSettings
from bayescl_lab.runs.ranking.settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    from bayescl_lab.compare.comparison import Comparison
    from bayescl_lab.compare.result import Result


@dataclass(frozen=True)
class Trials:
    """Options that apply to all losses of a comparison.

    Attributes:
        seeds: Number of seeds. --seed is the first of them.
        tune: Number of settings to try for each loss before the comparison, on a validation part
            held out of training: temperatures, then hyper-parameters and, with a teacher,
            positive_share.
        hyperparameters: Hyper-parameters of single losses, by loss and name, for configuration
            files.
    """

    seeds: Count = 4
    tune: Tries = 0
    hyperparameters: ByLoss | None = None


def images(
    *,
    losses: Words = IMAGE_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[IMAGE_HYPERPARAMETERS, FLAT] = IMAGE_HYPERPARAMETERS(),
    num_classes: int | None = None,
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    typed: Typed,
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Train several losses over several seeds and compare their encoders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: Comma-separated names of losses. A name with the suffix "_teacher" is the loss with
            a teacher, for which --positive-share applies. Hyper-parameters apply to all losses that
            have them. Their defaults are the values recorded for the data set, or else the defaults
            of the loss. The default temperature of all losses is the temperature of InfoNCE.
        num_classes: Number of classes C. Sets tau_plus to 1/C if tau_plus is not given.
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.comparison import settle_methods
    from bayescl_lab.compare.images import ImageComparison, recorded_hyperparameters

    data = settings.data
    share = {SHARE: settings.positive_share} if SHARE in typed else {}
    settled = settle_methods(
        losses,
        "images",
        given=vars(shared) | share,
        num_classes=num_classes,
        hyperparameters=trials.hyperparameters,
        recorded=lambda loss: recorded_hyperparameters(data, loss),
    )
    first = ImageSettings(**vars(settings), loss=LossSettings(BASELINE))
    comparison = ImageComparison(
        settled, trials.seeds, first, trials.tune, allows_own_encoder="encoder" in typed
    )
    folder = place.folder(f"compare-{data}")
    result = _compare(comparison, folder, place, workers)
    _finish(folder, result)


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    losses: Words = ("info_nce", "debiased", "hard", "bayesian", "bpr"),
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[RANKING_HYPERPARAMETERS, FLAT] = RANKING_HYPERPARAMETERS(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Train several losses over several seeds and compare their recommenders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same batches and candidates, so losses are compared seed by seed. Popularity
    and EASE are added as baselines.

    Args:
        encoder: Model of the embeddings.
        losses: Comma-separated names of losses. Hyper-parameters apply to all losses that have
            them.
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.comparison import settle_methods
    from bayescl_lab.compare.ranking import RankingComparison

    settled = settle_methods(
        losses, "ranking", given=vars(shared), hyperparameters=trials.hyperparameters
    )
    first = RankingSettings(**vars(settings), data=data, encoder=encoder)
    comparison = RankingComparison(settled, trials.seeds, first, trials.tune)
    folder = place.folder(f"compare-{encoder}-{data.data}")
    if not place.resume:
        print_guesses(data)
    result = _compare(comparison, folder, place, workers)
    _finish(folder, result)


def print_result(result: Result) -> None:
    """Print figures, differences to InfoNCE, and remarks."""
    from bayescl_lab.report.results import result_tables, result_title

    figures, *others = result_tables(result)
    show(result_title(result), figures)
    remarks = (figures.title.replace("**", ""), figures.note, *result.remarks)
    say(*(f"* {text}" for text in remarks if text))
    for table in others[:1]:
        title = table.title.partition(" Bold")[0].strip("*.")
        show(f"{title}: mean ± {SPREAD}", table)


def _compare(
    comparison: Comparison[Any], folder: Path, place: Place, workers: int | None
) -> Result:
    """Run or resume a comparison with a progress bar, and return its result."""
    from bayescl_lab.compare.plan import run_plans

    plan = comparison.plan()
    usual = usual_workers(comparison.shared.torch_device(), len(plan.runs()))
    with Bar(plan.epochs) as bar, place.interruptible(comparison.kind, folder):
        (result,) = run_plans(
            comparison.kind,
            comparison,
            [plan],
            folder,
            resume=place.resume,
            workers=workers or usual,
            progress=lambda name, _, done: bar.tell(done, name),
        )
    return result


def _finish(folder: Path, result: Result) -> None:
    """Print a comparison, write its table, picture and page, and print its verdict and files."""
    from bayescl_lab.report.figures import results_figure
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.results import results_markdown
    from bayescl_lab.report.verdicts import comparison_verdict

    print_result(result)
    page = folder / "report.html"
    save_figure(results_figure([result]), folder / "comparison.png", dpi=150)
    write_atomically(folder / "comparison.md", results_markdown([result]))
    write_atomically(page, report_page([folder]))
    say(
        *comparison_verdict(result),
        f"figures: {folder / 'result.json'}",
        f"table: {folder / 'comparison.md'}",
        f"picture: {folder / 'comparison.png'}",
        f"page: {page}",
    )

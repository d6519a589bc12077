"""``bayescl compare``: comparison of losses over seeds, for image encoders or recommenders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.cli._console import Bar, print_guesses, say, show
from bayescl_lab.cli._options import (
    FLAT,
    RUNTIME_OPTIONS,
    Hyperparameters,
    Options,
    Place,
    Typed,
    Workers,
)
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.images.image_settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import BASELINE, IMAGE_METHODS, SHARE, LossSettings
from bayescl_lab.runs.ranking.ranking_settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bayescl_lab.compare.plan import Plan
    from bayescl_lab.report.tables import Table
    from bayescl_lab.runs.result import Result


@dataclass(frozen=True)
class Trials:
    """Options that apply to all losses of a comparison.

    Attributes:
        seeds: Number of seeds. --seed is the first of them.
        tune: Number of settings to try for each loss before the comparison, on a validation part
            held out of training: temperatures, then hyper-parameters and, with a teacher,
            positive_share.
    """

    seeds: Count = 4
    tune: Tries = 0


def images(
    *,
    losses: Words = IMAGE_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    typed: Typed,
    options: Options,
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
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.comparison import settle_methods
    from bayescl_lab.compare.images import compare_images, recorded_hyperparameters

    data = settings.data
    share = {SHARE: settings.positive_share} if SHARE in typed else {}
    settled = settle_methods(
        losses,
        "images",
        given=vars(shared) | share,
        recorded=lambda loss: recorded_hyperparameters(data, loss),
    )
    first = ImageSettings(**vars(settings), loss=LossSettings(BASELINE))
    plan = compare_images(settled, first, **vars(trials), allows_own_encoder="encoder" in typed)
    folder = place.folder(f"compare-{data}")
    _compare("compare images", options, plan, folder, place, workers)


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    losses: Words = ("info_nce", "debiased", "hard", "bayesian", "bpr"),
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    options: Options,
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
    from bayescl_lab.compare.ranking import compare_ranking

    settled = settle_methods(losses, "ranking", given=vars(shared))
    first = RankingSettings(**vars(settings), data=data, encoder=encoder)
    plan = compare_ranking(settled, first, **vars(trials))
    folder = place.folder(f"compare-{encoder}-{data.data}")
    if not place.resume:
        print_guesses(data)
    _compare("compare ranking", options, plan, folder, place, workers)


def print_result(title: str, result: Result, table: Table | None = None) -> None:
    """Print the table of a result, by default the table of its scores, and remarks."""
    from bayescl_lab.report.results import remarks_of, scores_table

    table = table or scores_table(result)
    show(title, table)
    about = (table.title.replace("**", ""), table.note) if table.records else ()
    say(*(f"* {text}" for text in (*about, *remarks_of(result)) if text))


def perform(
    kind: str,
    options: Mapping[str, Any],
    plans: Sequence[Plan[Any]],
    folder: Path,
    place: Place,
    workers: int | None,
    program: str = "bayescl",
) -> list[Result]:
    """Run or resume plans with a progress bar, and return their results."""
    from bayescl_lab._cores import usable_cores
    from bayescl_lab.compare.plan import run_plans

    first = next(iter(plans[0].methods.values()))
    runs = sum(len(plan.runs()) for plan in plans)
    usual = min(usable_cores(), runs) if first.torch_device().type == "cpu" else 1
    bar = Bar(sum(plan.epochs for plan in plans))
    with bar, place.interruptible(f"{program} {kind}", folder):
        return run_plans(
            kind,
            options,
            plans,
            folder,
            resume=place.resume,
            workers=workers or usual,
            progress=lambda name, _, done: bar.tell(done, name),
        )


def _compare(
    kind: str,
    options: Mapping[str, Any],
    plan: Plan[Any],
    folder: Path,
    place: Place,
    workers: int | None,
) -> None:
    """Run a comparison, write its table, picture and page, and print its verdict and files."""
    from bayescl_lab.report.figures import results_figure
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.results import result_title, results_markdown
    from bayescl_lab.report.verdicts import comparison_verdict

    (result,) = perform(kind, options, [plan], folder, place, workers)
    print_result(result_title(result), result)
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

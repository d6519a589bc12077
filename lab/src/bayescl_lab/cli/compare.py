"""``bayescl compare``: comparison of losses over seeds, for image encoders or recommenders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab._types import Config, Values
from bayescl_lab.cli._console import Bar, notes, print_guesses, say, show
from bayescl_lab.cli._options import (
    FLAT,
    RUNTIME_OPTIONS,
    Hyperparameters,
    MethodValues,
    Options,
    PrintConfig,
    RunOptions,
    Typed,
    Workers,
)
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.arrays.array_settings import ArrayOptions, ArraySettings
from bayescl_lab.runs.encoder_settings import EncoderOptions
from bayescl_lab.runs.images.image_settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import (
    ARRAY_METHODS,
    BASELINE,
    SHARE,
    VIEW_METHODS,
    LossSettings,
    RankingLossSettings,
    methods_with_teacher,
    view_methods,
)
from bayescl_lab.runs.ranking.ranking_settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bayescl_lab.compare.plan import AnyPlan
    from bayescl_lab.report.tables import ReportTable
    from bayescl_lab.runs.result import Result


@dataclass(frozen=True)
class Trials:
    """Options that apply to all losses of a comparison.

    Attributes:
        seeds: Number of seeds. --seed is the first of them.
        tune: Number of settings to try for each loss before the comparison, on a validation split
            held out of training: temperatures, then hyper-parameters and, with a teacher,
            positive_share.
    """

    seeds: Count = 4
    tune: Tries = 0


def arrays(
    *,
    losses: Words = ARRAY_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ArrayOptions, FLAT],
    typed: Typed,
    options: Options,
    methods: MethodValues,
    workers: Workers = None,
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
) -> Config | None:
    """Train several losses over several seeds on rows or signals, and compare their encoders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: Comma-separated names of losses. The suffix "+domains" is --domains for one loss,
            "+teacher" adds a teacher, see --teacher. Hyper-parameters apply to all losses that have
            them. A configuration file can give values for single losses in the mapping "methods".
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.arrays import compare_arrays

    values = _values_of_methods(losses, settings, shared, typed, methods)
    first = ArraySettings(**vars(settings), loss=LossSettings(BASELINE))
    is_own = bool({"encoder", "views"} & typed)
    plan = compare_arrays(values, first, **vars(trials), allows_own_code=is_own)
    options = _with_methods(options, plan, values)
    if print_config:
        return options
    folder = run_options.folder(f"compare-{Path(settings.data).stem}")
    _compare("compare arrays", options, plan, folder, run_options, workers)
    _draw_embeddings(folder, list(plan.methods), settings.seed)
    return None


def images(
    *,
    losses: Words = VIEW_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    typed: Typed,
    options: Options,
    methods: MethodValues,
    workers: Workers = None,
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
) -> Config | None:
    """Train several losses over several seeds and compare their encoders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: Comma-separated names of losses. The suffix "+teacher" adds a teacher, see
            --teacher. Hyper-parameters apply to all losses that have them. A configuration file can
            give values for single losses in the mapping "methods".
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.images import compare_images

    values = _values_of_methods(losses, settings, shared, typed, methods)
    first = ImageSettings(**vars(settings), loss=LossSettings(BASELINE))
    plan = compare_images(values, first, **vars(trials), allows_own_encoder="encoder" in typed)
    options = _with_methods(options, plan, values)
    if print_config:
        return options
    folder = run_options.folder(f"compare-{settings.data}")
    _compare("compare images", options, plan, folder, run_options, workers)
    return None


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    losses: Words = ("info_nce", "debiased", "hard", "bayesian", "bpr"),
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    options: Options,
    methods: MethodValues,
    workers: Workers = None,
    run_options: Annotated[RunOptions, RUNTIME_OPTIONS] = RunOptions(),
    print_config: PrintConfig = False,
) -> Config | None:
    """Train several losses over several seeds and compare their recommenders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same batches and candidates, so losses are compared seed by seed. Popularity
    and EASE are added as baselines.

    Args:
        encoder: Model of the embeddings.
        losses: Comma-separated names of losses. Hyper-parameters apply to all losses that have
            them. A configuration file can give values for single losses in the mapping "methods".
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab.compare.comparison import values_of_methods
    from bayescl_lab.compare.ranking import compare_ranking

    choices = tuple(RankingLossSettings.classes())
    values = values_of_methods(losses, choices, given=vars(shared), own=methods)
    first = RankingSettings(**vars(settings), data=data, encoder=encoder)
    plan = compare_ranking(values, first, **vars(trials))
    options = _with_methods(options, plan, values)
    if print_config:
        return options
    folder = run_options.folder(f"compare-{encoder}-{data.data}")
    if not run_options.resume:
        print_guesses(data)
    _compare("compare ranking", options, plan, folder, run_options, workers)
    return None


def _with_methods(options: Values, plan: AnyPlan, values: Mapping[str, Values]) -> Config:
    """Return the options with the values of every method instead of values for all methods."""
    shared = {*vars(Hyperparameters()), SHARE, "teacher"}
    kept = {name: value for name, value in options.items() if name not in shared}
    methods = {}
    for name, settings in plan.methods.items():
        config = settings.as_config()
        own = dict.fromkeys([*settings.loss.resolved(), "teacher", SHARE, *values[name]])
        methods[name] = {key: config[key] for key in own if key in config}
    return {**kept, "losses": ",".join(methods), "methods": methods}


def _draw_embeddings(folder: Path, methods: Sequence[str], seed: int) -> None:
    """Draw the embeddings of InfoNCE and of the last method without labels, of the first seed."""
    from bayescl_lab.report.embeddings import embeddings_figure
    from bayescl_lab.report.tables import loss_title
    from bayescl_lab.runs.losses import LOSSES, loss_of

    own = [name for name in methods if not LOSSES[loss_of(name)].needs_labels] or list(methods)
    names = dict.fromkeys([BASELINE if BASELINE in own else own[0], own[-1]])
    runs = {loss_title(name): folder / "runs" / f"{name}-seed{seed}" for name in names}
    picture = folder / "embeddings.png"
    if all(path.is_dir() for path in runs.values()):
        save_figure(embeddings_figure(runs), picture, dpi=150)
        say(f"embeddings: {picture}")


def _values_of_methods(
    losses: Sequence[str],
    settings: EncoderOptions,
    shared: Hyperparameters,
    typed: frozenset[str],
    methods: MethodValues,
) -> dict[str, dict[str, float]]:
    """Return the hyper-parameters of every method that are not defaults."""
    from bayescl_lab.compare.comparison import values_of_methods

    names = methods_with_teacher(losses, settings.teacher)
    share = {SHARE: settings.positive_share} if SHARE in typed else {}
    return values_of_methods(names, view_methods(), given=vars(shared) | share, own=methods)


def print_result(title: str, result: Result, table: ReportTable | None = None) -> None:
    """Print the table of a result, by default of its scores, and remarks not printed before."""
    from bayescl_lab.report.results import classes_table, remarks_of, scores_table

    table, of_classes = table or scores_table(result), classes_table(result)
    show(title, table)
    about = (table.title.replace("**", ""), table.note) if table.records else ()
    if of_classes.records:
        show("", of_classes)
        about = (*about, of_classes.title.replace("**", ""))
    remarks = [text for text in remarks_of(result) if text not in notes.messages]
    say(*(f"* {text}" for text in (*about, *remarks) if text))


def perform(
    kind: str,
    options: Values,
    plans: Sequence[AnyPlan],
    folder: Path,
    run_options: RunOptions,
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
    with bar, run_options.interruptible(f"{program} {kind}", folder):
        return run_plans(
            kind,
            options,
            plans,
            folder,
            resume=run_options.resume,
            workers=workers or usual,
            progress=lambda name, _, done: bar.tell(done, name),
        )


def _compare(
    kind: str,
    options: Values,
    plan: AnyPlan,
    folder: Path,
    run_options: RunOptions,
    workers: int | None,
) -> None:
    """Run a comparison, write its table, picture and page, and print its verdict and files."""
    from bayescl_lab.report.figures import results_figure
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.results import result_title, results_markdown
    from bayescl_lab.report.verdicts import comparison_verdict

    (result,) = perform(kind, options, [plan], folder, run_options, workers)
    print_result(result_title(result), result)
    page = folder / "report.html"
    save_figure(results_figure([result]), folder / "comparison.png", dpi=150)
    write_atomically(folder / "comparison.md", results_markdown([result]))
    write_atomically(page, report_page([folder]))
    say(
        *comparison_verdict(result),
        f"numbers: {folder / 'result.json'}",
        f"table: {folder / 'comparison.md'}",
        f"picture: {folder / 'comparison.png'}",
        f"page: {page}",
    )

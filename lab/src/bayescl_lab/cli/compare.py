"""``bayescl compare``: comparison of losses over seeds, for encoders or recommenders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab._types import Config, Values
from bayescl_lab.cli._console import Bar, print_guesses, print_result, say
from bayescl_lab.cli._options import FLAT, RUNTIME_OPTIONS, Called, Hyperparameters, RunOptions
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.arrays.array_settings import ArrayOptions, ArraySettings
from bayescl_lab.runs.encoder_settings import EncoderOptions, EncoderSettings
from bayescl_lab.runs.folder import Kind
from bayescl_lab.runs.images.image_settings import ImageOptions, ImageSettings
from bayescl_lab.runs.losses import (
    ARRAY_METHODS,
    BASELINE,
    LOSSES,
    SHARE,
    VIEW_METHODS,
    LossSettings,
    RankingLossSettings,
    loss_of,
    methods_with_teacher,
    view_methods,
)
from bayescl_lab.runs.ranking.ranking_settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bayescl_lab.compare.plan import AnyPlan
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


@dataclass(frozen=True)
class PlanOptions(RunOptions):
    """The folder of a comparison, and the number of parallel runs.

    Attributes:
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """

    workers: Count | None = None


def arrays(
    *,
    losses: Words = ARRAY_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ArrayOptions, FLAT],
    run_options: Annotated[PlanOptions, RUNTIME_OPTIONS] = PlanOptions(),
    called: Called,
) -> Config | None:
    """Train one encoder of rows or signals per loss and seed, and compare the losses.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: Comma-separated names of losses. The suffix "+domains" sets --domains for a loss,
            "+teacher" adds a teacher, see --teacher. Hyper-parameters apply to all losses that have
            them. A configuration file can give values for single losses in the mapping "methods".
    """
    return _compare_encoders(ArraySettings, settings, losses, trials, shared, run_options, called)


def images(
    *,
    losses: Words = VIEW_METHODS,
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[ImageOptions, FLAT] = ImageOptions(),
    run_options: Annotated[PlanOptions, RUNTIME_OPTIONS] = PlanOptions(),
    called: Called,
) -> Config | None:
    """Train one encoder per loss and seed, and compare the losses.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same views, so losses are compared seed by seed.

    Args:
        losses: Comma-separated names of losses. The suffix "+teacher" adds a teacher, see
            --teacher. Hyper-parameters apply to all losses that have them. A configuration file can
            give values for single losses in the mapping "methods".
    """
    return _compare_encoders(ImageSettings, settings, losses, trials, shared, run_options, called)


def ranking(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: Literal[tuple(ENCODERS)] = "mf",  # type: ignore[valid-type]
    losses: Words = ("info_nce", "debiased", "hard", "bayesian", "bpr"),
    trials: Annotated[Trials, FLAT] = Trials(),
    shared: Annotated[Hyperparameters, FLAT] = Hyperparameters(),
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    run_options: Annotated[PlanOptions, RUNTIME_OPTIONS] = PlanOptions(),
    called: Called,
) -> Config | None:
    """Train one recommender per loss and seed, and compare the losses.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same batches and candidates, so losses are compared seed by seed. Popularity
    and EASE are added as baselines.

    Args:
        encoder: Encoder of users and items, such as mf (matrix factorization) or lightgcn.
        losses: Comma-separated names of losses. Hyper-parameters apply to all losses that have
            them. A configuration file can give values for single losses in the mapping "methods".
    """
    from bayescl_lab.compare.comparison import values_of_methods
    from bayescl_lab.compare.ranking import compare_ranking

    choices = tuple(RankingLossSettings.classes())
    values = values_of_methods(losses, choices, given=vars(shared), own=called.methods)
    first = RankingSettings(**vars(settings), data=data, encoder=encoder)
    plan = compare_ranking(values, first, **vars(trials))
    if not (called.print_config or run_options.resume):
        print_guesses(data)
    return _compare(plan, values, f"{encoder}-{data.data}", run_options, called)


def _compare_encoders(
    settings_type: type[EncoderSettings],
    options: EncoderOptions,
    losses: Sequence[str],
    trials: Trials,
    shared: Hyperparameters,
    run_options: PlanOptions,
    called: Called,
) -> Config | None:
    """Compare encoders of images or arrays. Only typed names import custom code."""
    from bayescl_lab.compare.comparison import values_of_methods
    from bayescl_lab.compare.encoders import compare_encoders

    names = methods_with_teacher(losses, options.teacher)
    given = vars(shared) | ({SHARE: options.positive_share} if SHARE in called.typed else {})
    values = values_of_methods(names, view_methods(), given=given, own=called.methods)
    first = settings_type(**vars(options), loss=LossSettings(BASELINE))
    plan = compare_encoders(values, first, **vars(trials), own_code=called.typed)
    return _compare(plan, values, Path(first.where).stem, run_options, called)


def _compare(
    plan: AnyPlan,
    values: Mapping[str, Values],
    name: str,
    run_options: PlanOptions,
    called: Called,
) -> Config | None:
    """Compare, write a table, pictures and a page, and print the verdict; or return options."""
    from bayescl_lab.report.figures import results_figure
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.results import (
        classes_table,
        comparison_verdict,
        result_title,
        scores_table,
        section_markdown,
    )

    # Values of every method take the place of values for all methods.
    shared = {*vars(Hyperparameters()), SHARE, "teacher"}
    options = {name: value for name, value in called.options.items() if name not in shared}
    methods = {}
    for method, settings in plan.methods.items():
        config = settings.as_config()
        own = dict.fromkeys([*settings.loss.resolved(), "teacher", SHARE, *values[method]])
        methods[method] = {key: config[key] for key in own if key in config}
    options |= {"losses": ",".join(methods), "methods": methods}
    if called.print_config:
        return options
    folder, kind = run_options.folder(f"compare-{name}"), settings.kind
    command = kind.replace("train", "compare")
    (result,) = perform(command, options, [plan], folder, run_options)
    print_result(result_title(result), result)
    page = folder / "report.html"
    save_figure(results_figure([result]), folder / "comparison.png", dpi=150)
    scores = scores_table(result, result.measures if result.baselines else ())
    markdown = section_markdown(result_title(result), result, scores, classes_table(result))
    write_atomically(folder / "comparison.md", markdown)
    write_atomically(page, report_page([folder]))
    say(
        *comparison_verdict(result),
        f"numbers: {folder / 'result.json'}",
        f"table: {folder / 'comparison.md'}",
        f"picture: {folder / 'comparison.png'}",
        f"page: {page}",
    )
    if kind is Kind.ARRAYS:
        _draw_embeddings(folder, list(methods), plan.seeds[0])
    return None


def _draw_embeddings(folder: Path, methods: Sequence[str], seed: int) -> None:
    """Draw the embeddings of InfoNCE and of the last method without labels, of the first seed."""
    from bayescl_lab.report.figures import embeddings_figure
    from bayescl_lab.report.tables import loss_title

    own = [name for name in methods if not LOSSES[loss_of(name)].needs_labels] or list(methods)
    names = dict.fromkeys([BASELINE if BASELINE in own else own[0], own[-1]])
    runs = {loss_title(name): folder / "runs" / f"{name}-seed{seed}" for name in names}
    picture = folder / "embeddings.png"
    if all(path.is_dir() for path in runs.values()):
        save_figure(embeddings_figure(runs), picture, dpi=150)
        say(f"figure of the embeddings: {picture}")


def perform(
    kind: str,
    options: Values,
    plans: Sequence[AnyPlan],
    folder: Path,
    run_options: PlanOptions,
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
            workers=run_options.workers or usual,
            progress=lambda name, _, done: bar.tell(done, name),
        )

"""The paper's ranking table: plans of its cells, and our values beside the paper's.

``ranking_table.yaml`` has the settings to try for each data set.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import pydantic.dataclasses
import yaml
from matplotlib.figure import Figure

from bayescl_lab._downloads import data_folder
from bayescl_lab._fields import Count, Words, check_choice
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab._types import Values
from bayescl_lab.compare.plan import Plan
from bayescl_lab.compare.ranking import RankingPlan
from bayescl_lab.compare.tuning import check_once, settings_of
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.report.figures import results_figure
from bayescl_lab.report.results import (
    headlines,
    read_results,
    result_title,
    scores_table,
    section_markdown,
)
from bayescl_lab.report.tables import ReportTable, measure_title, score_text
from bayescl_lab.runs.folder import write_json
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.ranking_run import CRITERION, RankingRun
from bayescl_lab.runs.ranking.ranking_settings import (
    EASE_NAME,
    IALS_NAME,
    POPULARITY,
    BaselineSettings,
    RankingSettings,
)
from bayescl_lab.runs.result import Result, Score
from reproduction.printed import METRICS, MISPRINTS, PUBLISHED, RANKING, Printed

_PLANS = yaml.safe_load(files(__package__).joinpath("ranking_table.yaml").read_text("utf-8"))

AUTHOR_SPLIT = "ml-100k-author"
"""Name of MovieLens-100k in the split of the paper's first author."""


@dataclass(frozen=True)
class CellPlan(RankingPlan):
    """Cell of the table: all losses on one data set with one encoder, tuned on validation.

    Attributes:
        rankings: Values of ``propagate`` and ``item_norm_exponent`` to try on the best run of each
            loss, without training again.
        final_epochs: Number of epochs for the test split. ``None`` for the number of epochs in
            tuning.
        title: Name of the data in the table. Default: the name of the file or data set.
    """

    rankings: Sequence[Values] = ({},)
    final_epochs: int | None = None
    title: str = ""

    @property
    def epochs(self) -> int:
        """Largest number of epochs of all runs."""
        runs = self.methods.values()
        more = sum((self.final_epochs or one.epochs) - one.epochs for one in runs)
        return super().epochs + len(self.seeds) * more

    def adapted(self, settings: RankingSettings, folder: Path) -> RankingSettings:
        """Return the settings for the test split, with the best ranking."""
        ranking = best_ranking(folder, self.rankings)
        return settings.with_values({"epochs": self.final_epochs or settings.epochs, **ranking})


def best_ranking(folder: Path, tried: Sequence[Values]) -> Values:
    """Return the settings with which a finished run ranks best on the validation split."""
    if len(tried) == 1:
        return tried[0]
    _, run, _ = RankingRun.reopen(folder)

    def score(values: Values) -> float:
        run.model.propagate = values["propagate"]
        run.model.item_norm_exponent = values["item_norm_exponent"]
        return run.evaluate().row.scores[CRITERION].mean

    return max(tried, key=score)


@pydantic.dataclasses.dataclass(frozen=True)
class RankingRequest:
    """Requested cells and size of the ranking table.

    Attributes:
        data: Comma-separated names of data sets, or the path of one. ml-100k-author has the split
            of the paper's first author.
        encoders: Names of encoders: mf, lightgcn or both, comma-separated.
        losses: Comma-separated names of losses. Default: all in the plan of a data set.
        seeds: Number of seeds for the test split.
        size: Size of the experiments: full, or smoke, a check that takes a minute.
        results: Folder that collects the results of several calls for one table and figure.
            Default: the folder of this call.
    """

    data: Words = ("ml-100k",)
    encoders: Words = ("mf", "lightgcn")
    losses: Words = ()
    seeds: Count = 5
    size: Literal["full", "smoke"] = "full"
    results: str | None = None

    def __post_init__(self) -> None:
        for name in ("data", "encoders"):
            check_once(name, getattr(self, name))
        for encoder in self.encoders:
            check_choice("encoder", encoder, tuple(ENCODERS))

    def plans(self) -> list[CellPlan]:
        """Return the requested cells; raise ``ValueError`` if a loss is not in a plan."""
        pairs = itertools.product(self.data, self.encoders)
        return [cell_plan(self, data, encoder) for data, encoder in pairs]


def author_split() -> RankingData:
    """Return MovieLens-100k in the split of the paper's first author.

    Raises:
        ValueError: if its files are not in the data folder.
    """
    folder = data_folder() / "ml-100k" / "author-split"
    train, test = folder / "train.csv", folder / "test.csv"
    if not (train.is_file() and test.is_file()):
        raise ValueError(
            f"{AUTHOR_SPLIT} needs {train} and test.csv beside it, with columns user, item and "
            "rating, as in the repositories of the paper's first author (github.com/liubin06)"
        )
    return RankingData(str(train), "given", test_data=str(test))


def cell_plan(request: RankingRequest, data: str | RankingData, encoder: str) -> CellPlan:
    """Return the plan for a data set and an encoder. Default: the plan of MovieLens-100k.

    A smoke test tries one setting per method, with two epochs.
    """
    title = "ml-100k, author split" if data == AUTHOR_SPLIT else ""
    name = Path(data.data if isinstance(data, RankingData) else data).name
    if isinstance(data, str):
        data = author_split() if title else RankingData(data)
    plan = _PLANS.get(data.data, _PLANS["ml-100k"])[encoder]
    grids, fixed = dict(plan["loss_grids"]), dict(plan["fixed"])
    final_epochs, penalties = plan.get("final_epochs"), plan.get("regularizations", [])
    for loss in request.losses:
        if loss not in grids:
            known = ", ".join(grids)
            raise ValueError(f"the plan of {name}-{encoder} has settings for {known}, not {loss}")
    check_once("losses", request.losses or list(grids))
    tried = {loss: settings_of(grids[loss]) for loss in request.losses or grids}
    ials = settings_of(plan["ials_grid"])
    if request.size == "smoke":
        fixed |= {"epochs": 2}
        tried = {loss: values[:1] for loss, values in tried.items()}
        ials = [{**ials[0], "epochs": 2}]
        penalties, final_epochs = penalties[:1], None
    settings = RankingSettings(data=data, **fixed)
    return CellPlan(
        {loss: settings.with_method(loss) for loss in tried},
        range(request.seeds),
        name=f"{name}-{encoder}",
        stages=[tried],
        baselines=_baselines(settings, f"{name}-baselines", penalties, ials),
        rankings=settings_of(plan.get("rankings_grid", {})),
        final_epochs=final_epochs,
        title=title,
    )


def _baselines(
    settings: RankingSettings, name: str, penalties: Sequence[float], ials: Sequence[Values]
) -> Plan[BaselineSettings]:
    """Return the plan of popularity, EASE and iALS, with settings chosen on validation."""
    names: Any = (POPULARITY, *([EASE_NAME] if penalties else []), IALS_NAME)
    methods = {one: BaselineSettings(one, settings.data, dim=settings.dim) for one in names}
    tried: dict[str, Sequence[Values]] = {IALS_NAME: ials}
    tried |= {EASE_NAME: [{"regularization": it} for it in penalties]} if penalties else {}
    return Plan(methods, [0], fit_baseline, name=name, stages=[tried], tuning_seeds=(0,))


def printed_value(result: Result, method: str, measure: str) -> Printed | None:
    """Return the paper's value for a method. ``None`` on LightGCN's split."""
    key = (result.data.partition(",")[0], result.encoder, method)
    if result.data in PUBLISHED or measure not in RANKING.get(key, {}):
        return None
    return Printed(RANKING[key][measure], note=MISPRINTS.get((*key, measure), ""))


def cell_title(result: Result) -> str:
    """Return the title of a cell: its data set, split and encoder."""
    split = ", LightGCN's split" if result.data in PUBLISHED else ""
    return result_title(replace(result, data=result.data + split))


def beside(result: Result, measures: Sequence[str] = METRICS) -> ReportTable:
    """Return the table of a finished cell, with the paper's values in parentheses.

    On LightGCN's split, rows with values that others published are added instead.
    """
    table, notes = scores_table(result, measures), list[str]()
    records = [dict(record) for record in table.records]
    for (name, _), record in zip(result.every.items(), records, strict=True):
        for measure in measures:
            if value := printed_value(result, name, measure):
                title = measure_title(measure)
                record[title] = value.beside(record[title], ".4f", notes)
    for name, published in PUBLISHED.get(result.data, {}).items():
        values = {measure_title(one): score_text(Score(it), one) for one, it in published.items()}
        records.append({"": f"*published: {name}*", **values})
    about = table.title
    if result.data in PUBLISHED:
        about += " The paper's values are of another split, so they are left out."
    elif any(printed_value(result, name, measures[0]) for name in result.rows):
        split = "" if "author split" in result.data else " They are of another random split."
        about += f" In parentheses: the paper's values, chosen on its test split.{split}"
    return replace(table, records=records, title=about, note=" ".join([table.note, *notes]).strip())


def overview(results: Sequence[Result], measure: str) -> ReportTable:
    """Return one measure of every method, with a row for each cell, the largest cells first."""
    title, records = measure_title(measure), []
    for result in sorted(results, key=lambda result: -len(result.every)):
        rows = beside(result, [measure]).records[: len(result.every)]
        records.append({"": cell_title(result), **{row[""]: row[title] for row in rows}})
    return ReportTable(records)


def table_figure(results: Sequence[Result]) -> Figure:
    """Plot two measures of every cell, with the paper's values."""
    figure = results_figure(results)
    panes = [(result, measure) for result in results for measure in headlines(result)]
    marks = []
    for axis, (result, measure) in zip(figure.axes, panes, strict=True):
        axis.set_title(f"{cell_title(result)}: {measure_title(measure)}", fontsize=9)
        values = [printed_value(result, name, measure) for name in result.every]
        if any(values):
            levels = [float("nan") if one is None else one.value for one in values]
            marks = axis.plot(levels, range(len(levels)), "D", ms=6, mfc="none", color="black")
    if marks:
        figure.legend(marks, ["the paper"], loc="outside lower center", fontsize=8)
    return figure


def collect(folder: Path, name: str, result: Result) -> None:
    """Write a cell to the folder, and update its tables and figure from all cells in it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result.stored())
    results = read_results(folder)
    write_atomically(folder / "table.md", table_markdown(results))
    write_atomically(folder / "overview.md", overview(results, CRITERION).markdown() + "\n")
    save_figure(table_figure(results), folder / "ranking.png", dpi=130)


def table_markdown(results: Sequence[Result]) -> str:
    """Format all cells as Markdown, with headings and remarks."""
    return "\n".join(section_markdown(cell_title(one), one, beside(one)) for one in results)

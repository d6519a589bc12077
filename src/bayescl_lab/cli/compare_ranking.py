"""``bayescl compare ranking``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from bayescl_lab._fields import Count, Tries, Words
from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.cli._losses import NO_RANKING_HYPERPARAMETERS, RankingHyperparameters, given
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT, ByLoss
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.losses import RankingLoss
from bayescl_lab.runs.ranking.data import RankingData
from bayescl_lab.runs.ranking.settings import RankingOptions, RankingSettings

if TYPE_CHECKING:
    _Encoder = str
else:
    _Encoder = Literal[tuple(ENCODERS)]


def command(
    *,
    data: Annotated[RankingData, FLAT] = RankingData(),
    encoder: _Encoder = "mf",
    losses: Words = ("info_nce", "debiased", "hard", "bayesian", "bpr"),
    seeds: Count = 4,
    tune: Tries = 0,
    shared: RankingHyperparameters = NO_RANKING_HYPERPARAMETERS,
    hyperparameters: ByLoss | None = None,
    settings: Annotated[RankingOptions, FLAT] = RankingOptions(),
    workers: Annotated[Workers, CIRCUMSTANCES] = Workers(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Train several losses over several seeds and compare their recommenders.

    All runs differ only in the loss and the seed. Runs with the same seed start from the same
    weights and see the same batches and candidates, so losses are compared seed by seed. Popularity
    and EASE are added as baselines.

    Args:
        data: the data, and how to read them.
        encoder: the model of the embeddings.
        losses: comma-separated names. Hyper-parameters apply to every loss that takes them.
        seeds: number of seeds; --seed is the first of them.
        tune: first choose the best of this many settings for each loss on a validation part held
            out of training: temperatures, then its own hyper-parameters.
        shared: hyper-parameters of every loss that takes them.
        hyperparameters: hyper-parameters of single losses, by loss and name; for configuration
            files.
        settings: of every run.
        workers: runs at a time.
        place: the folder; finished runs in it are kept.
    """
    from bayescl_lab.cli._comparison import finish, print_cell, run
    from bayescl_lab.cli._tables import print_guesses
    from bayescl_lab.compare.comparison import settle_losses
    from bayescl_lab.compare.ranking import RankingComparison
    from bayescl_lab.report.ranking.figure import draw_cells
    from bayescl_lab.report.ranking.table import tables_markdown

    settled = settle_losses(
        RankingLoss, losses, given=given(shared), hyperparameters=hyperparameters
    )
    first = RankingSettings(**vars(settings), loss=settled[0], data=data, encoder=encoder)
    comparison = RankingComparison(losses=settled, seeds=seeds, shared=first, tune=tune)
    folder = place.folder(f"compare-{encoder}-{data.data}")
    if not place.resume:
        print_guesses(data.guessed_columns())
    result = run(comparison, folder, place, workers)
    draw_cells([result], folder / "comparison.png")
    print_cell(result)
    finish(folder, tables_markdown([result]))
    return 0

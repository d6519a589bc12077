"""``bayescl inspect`` for recommenders: how a loss weights items that a user has not seen.

Every item that a user does not have in training is a candidate. Held-out items count as false
negatives, since the user chose them too. They are only some of the false negatives: nobody knows
what else a user would choose, so what is called a true negative here need not be one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayescl.axes import Int, Tensor
from bayescl.diagnostics import ScoredCandidates, score_candidates
from bayescl.losses import ContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.inspection import Inspection, Sample, inspect_run
from bayescl_lab.runs.losses import LOSSES
from bayescl_lab.runs.ranking.run import RankingRun
from bayescl_lab.runs.ranking.settings import RankingSettings, baseline_of
from bayescl_lab.runs.run import Kind

MOST_PAIRS = 4_000_000  # of user and item to inspect, if nobody says how many users
CHUNK = 128  # users scored at a time


def inspect_ranking(
    path: Path,
    *,
    users: int | None = None,
    anchors: int = 6,
    shown: int = 6,
    seed: int = 0,
    data: str | None = None,
) -> Inspection:
    """Inspect a recommender's run with its saved weights, finished or not.

    It writes ``inspection.json``, ``inspection-weights.png`` and ``inspection-reliability.png`` to
    the run's folder.

    Args:
        path: the run folder.
        users: number of users to inspect, drawn from those with held-out items; default: enough
            for some million pairs of user and item.
        anchors: number of users to list items for.
        shown: number of items to list for each, at each end.
        seed: seed for drawing users.
        data: other interactions to take held-out items from; default: the run's own.

    Raises:
        ValueError: if the folder does not hold a recommender with a checkpoint, its loss does not
            weight candidates, or nobody has held-out items.
    """
    folder = RunFolder.open(path, Kind.RANKING)
    config = folder.config()
    if baseline_of(config) is not None:
        raise ValueError(f"{path} holds the baseline {config['encoder']}, which has no loss")
    loss = RankingSettings.from_config(config).loss
    weights_candidates = issubclass(loss.made, ContrastiveLoss)
    if not weights_candidates:
        raise ValueError(
            f"the loss {loss.loss} does not weight candidates: there is nothing to inspect"
        )

    def sampler(run: RankingRun, epochs: int) -> Sample:
        known = run.parts.train
        rows = _drawn_users(known, run.parts.evaluation, users, seed)
        titles = known.item_ids if known.item_titles is None else known.item_titles
        user_ids = known.user_ids[rows[: min(anchors, CHUNK)].numpy()]
        return Sample(
            [_scored(run, chunk) for chunk in rows.split(CHUNK)],
            anchors=[{"user": str(user)} for user in user_ids],
            names=lambda columns: [str(title) for title in titles[columns.numpy()]],
            about={"held_out": run.settings.evaluate_on, "users": len(rows)},
            title=f"{LOSSES[loss.loss].title} on {known.name}, {epochs} epochs",
        )

    return inspect_run(RankingRun, path, sampler, shown=shown, data=data)


def _drawn_users(
    known: Interactions, held_out: Interactions, users: int | None, seed: int
) -> Int[Tensor, " users"]:
    """Users with both known and held-out items."""
    counts = [np.diff(part.matrix.indptr) for part in (known, held_out)]
    eligible = torch.from_numpy(np.flatnonzero((counts[0] > 0) & (counts[1] > 0)))
    if len(eligible) == 0:
        raise ValueError(f"{held_out.name}: no user has both known and held-out items")
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 7))
    count = max(1, MOST_PAIRS // known.num_items) if users is None else users
    return eligible[torch.randperm(len(eligible), generator=generator)][:count]


@torch.no_grad()
def _scored(run: RankingRun, rows: Int[Tensor, " users"]) -> ScoredCandidates:
    """Some users' scores of all items that they do not have; the positive is one that they have."""
    users, items = run.model.encoder.users_and_items()
    known, held_out = (
        torch.from_numpy(part.matrix[rows.numpy()].toarray() > 0)
        for part in (run.parts.train, run.parts.evaluation)
    )
    # A known item of each user, always the same one.
    seed = derived_seed(run.settings.seed, Purpose.ESTIMATES, 0, 8)
    priority = torch.rand(known.shape[1], generator=torch.Generator().manual_seed(seed))
    positives = (priority * known).argmax(dim=1)
    loss: Any = run.model.loss
    return score_candidates(
        loss,
        users[rows.to(users.device)],
        items[positives.to(users.device)],
        items,
        layout="sampled",
        valid=~known.to(users.device),
        false_negative=held_out.to(users.device),
    )

"""Splits into training and evaluation interactions.

A split depends only on the interactions and on its own seed. It is the same for all runs and
methods.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bayescl_lab._fields import check_choice, checked
from bayescl_lab._types import AnyArray
from bayescl_lab.ranking.interactions import Interactions


def split_interactions(
    interactions: Interactions, kind: str, *, share: float, seed: int, draw: int = 0
) -> tuple[Interactions, Interactions]:
    """Split interactions into a training split and a held-out split.

    =============  ============================================================================
    ``per-user``   at random from each user, ``share`` of the user's interactions, rounded to an
                   integer (halves up). Users with too few interactions keep all of them in
                   training: up to 2 interactions at a share of 0.2, up to 4 at 0.1
    ``last``       by time, the last interaction of every user who has at least two, drawn at
                   random among equal times; ``share`` is ignored
    ``time``       by time, the latest interactions of all users together, as close to ``share`` as
                   possible: interactions with equal times stay together
    =============  ============================================================================

    Args:
        interactions: Interactions to split.
        kind: Kind of split, "per-user", "last" or "time".
        share: Share to hold out, in (0, 1).
        seed: Seed of the draw.
        draw: Index of an independent random split with the same seed.

    Returns:
        The training split and the held-out split; every interaction is in exactly one.

    Raises:
        ValueError: if the kind is unknown, the share is out of range, times are needed but missing,
            or nothing could be held out.

    Example:
        >>> all_pairs = np.divmod(np.arange(30), 10)
        >>> chosen = Interactions.from_pairs(*all_pairs, user_ids=3, item_ids=10)
        >>> train, test = split_interactions(chosen, "per-user", share=0.2, seed=0)
        >>> train.matrix.sum(axis=1).tolist(), test.matrix.sum(axis=1).tolist()
        ([8.0, 8.0, 8.0], [2.0, 2.0, 2.0])
    """
    check_choice("split", kind, ("per-user", "last", "time"))
    checked("share", share, Annotated[float, Field(gt=0, lt=1)])
    order = np.random.default_rng([seed, draw]).permutation(interactions.num_interactions)
    if kind == "last":
        held_out = np.zeros(len(order), dtype=bool)
        held_out[_last(interactions, order)] = True
    elif kind == "time":
        held_out = _latest(_times(interactions), share)
    else:
        held_out = _first_of_users(interactions, order, share)
    if not held_out.any() or held_out.all():
        raise ValueError(
            f"{interactions.name}: too few interactions to split ({kind}), "
            f"got {interactions.num_interactions} from {interactions.num_users} users"
        )
    return interactions.subset(~held_out), interactions.subset(held_out)


def _first_of_users(
    interactions: Interactions, order: NDArray[np.int64], share: float
) -> NDArray[np.bool_]:
    """Return the first entries of each user in an order of all entries."""
    users, _ = interactions.pairs()
    per_user = np.diff(interactions.matrix.indptr)
    sizes = np.minimum(np.floor(share * per_user + 0.5).astype(np.int64), per_user - 1)
    by_user_then_order = np.argsort(users * len(order) + order)
    position = np.arange(len(users)) - np.repeat(interactions.matrix.indptr[:-1], per_user)
    held_out = np.zeros(len(users), dtype=bool)
    held_out[by_user_then_order] = position < np.repeat(sizes, per_user)
    return held_out


def _times(interactions: Interactions) -> AnyArray:
    """Return the timestamps of all entries; raise ``ValueError`` if there are none."""
    if interactions.timestamps is None:
        raise ValueError(
            f"{interactions.name} has no timestamps to split by: pass --timestamp-column"
        )
    return interactions.timestamps


def _latest(times: AnyArray, share: float) -> NDArray[np.bool_]:
    """Return the latest entries, as close to a share as possible without dividing equal times."""
    moments, counts = np.unique(times, return_counts=True)
    from_moment = np.cumsum(counts[::-1])[::-1]
    first = moments[np.abs(from_moment - share * len(times)).argmin()]
    latest: NDArray[np.bool_] = times >= first
    return latest


def _last(interactions: Interactions, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last entry of each user with at least two entries.

    Equal times are sorted by an order of all entries.
    """
    users, _ = interactions.pairs()
    by_time = np.lexsort((order, _times(interactions), users))
    ends = interactions.matrix.indptr[1:][np.diff(interactions.matrix.indptr) > 1]
    last: NDArray[np.int64] = by_time[ends - 1]
    return last

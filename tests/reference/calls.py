"""What a call of a loss stands for: the logits of each pair by itself, from the documentation.

Everything is held at once, as ``[pairs, columns]``: an anchor's row is repeated for each of its
positives. Rows come in float64, and of length 1 if the loss normalizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

UNKNOWN = -1
Options = dict[str, Any]


class Pairs(NamedTuple):
    """The pairs of one direction."""

    positive: Tensor
    unlabeled: Tensor
    counted: Tensor
    """Which columns are candidates, groups aside."""
    apart: Tensor
    """Which share no group with the anchor."""
    weight: Tensor
    edge: float
    """How near a similarity comes to the margin."""
    bound: float
    """No sum or product on the way to a logit exceeds it."""

    def losses(self, row: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Weighted losses by a function of one pair's logits."""
        kept = self.counted & self.apart
        rows = zip(self.positive, self.unlabeled, kept, strict=True)
        return self.weight * torch.stack([row(p, u[counts]) for p, u, counts in rows])


def pairs_of(
    layout: str, rows: dict[str, Tensor], options: Options, temperature: float | Tensor
) -> list[Pairs]:
    """The pairs of each direction of a call, given its embeddings and other arguments by name."""
    made = {"two_views": _two_views, "in_batch": _in_batch, "sampled": _sampled}[layout]
    given = {"options": options, "temperature": temperature}
    return [_pairs(**part, **given) for part in made(rows, options)]


def _two_views(rows: dict[str, Tensor], options: Options) -> list[Options]:
    count, place = len(rows["view_1"]), torch.arange(2 * len(rows["view_1"]))

    def of(views: Any) -> Options:
        both = torch.cat([*views])
        return {"anchors": both, "positives": both.roll(count, 0), "columns": [both]}

    known = _keys(options, "", lambda part: torch.cat([part, part]))
    return [
        {
            **of(rows.values()),
            "whose": place,
            "eligible": place[:, None] % count != place % count,
            "mine": known,
            "theirs": [known],
            "valid": options.get("valid"),
            "judge": None if options.get("guide") is None else of(map(_unit, options["guide"])),
        }
    ]


def _in_batch(rows: dict[str, Tensor], options: Options) -> list[Options]:
    anchors, pairs, extra = rows["anchors"], rows["positives"], rows.get("extra")
    count = len(pairs)
    whose = options.get("anchor_of")
    whose = torch.arange(count) if whose is None else whose.long()
    owns = whose == torch.arange(len(anchors))[:, None]  # [anchors, pairs]
    has_any, first = owns.any(dim=1), owns.int().argmax(dim=1)
    known = _keys(options, "")
    of_anchors = {
        name: part[first].where(has_any[:, None], UNKNOWN) for name, part in known.items()
    }
    mine = {name: part[whose] for name, part in of_anchors.items()}
    guide, valid, log_q = (options.get(name) for name in ("guide", "valid", "log_q"))

    def of(anchors: Tensor, pairs: Tensor, extra: Tensor | None = None) -> Options:
        more = [] if extra is None else [extra[whose] if extra.ndim == 3 else extra]
        return {"anchors": anchors[whose], "positives": pairs, "columns": [pairs, *more]}

    eligible = whose[:, None] != whose
    forward: Options = of(anchors, pairs, extra) | {
        "whose": whose,
        "mine": mine,
        "theirs": [known],
        "valid": None if valid is None else valid[whose],
        "judge": None if guide is None else of(*map(_unit, guide)),
        "of_positives": None if log_q is None else log_q[:count],
        "of_columns": log_q,
        "judged": count,
    }
    if extra is not None:
        width = extra.shape[-2]
        eligible = torch.cat([eligible, torch.ones(count, width, dtype=torch.bool)], dim=1)
        own = extra.ndim == 3
        more = _keys(options, "extra_", lambda part: part[whose] if own else part, own)
        forward["theirs"].append(more)
        if log_q is not None and own:
            forward["of_columns"] = torch.cat([log_q, log_q.new_zeros(width)])
        if options.get("margin") is not None and options["margin"].extra:
            forward["judged"] = count + width
    found = [forward | {"eligible": eligible}]
    if options.get("both_directions"):
        log_q = options.get("anchor_log_q")
        found.append(
            {
                **_turned(anchors, pairs, whose),
                "whose": torch.arange(count),
                "eligible": whose[:, None] != torch.arange(len(anchors)),
                "mine": known,
                "theirs": [of_anchors],
                "valid": None if valid is None else valid[:, :count].T,
                "judge": None if guide is None else _turned(*map(_unit, guide[:2]), whose),
                "of_positives": None if log_q is None else log_q[whose],
                "of_columns": log_q,
            }
        )
    return found


def _turned(anchors: Tensor, pairs: Tensor, whose: Tensor) -> Options:
    return {"anchors": pairs, "positives": anchors[whose], "columns": [anchors]}


def _sampled(rows: dict[str, Tensor], options: Options) -> list[Options]:
    whose = options.get("anchor_of")
    whose = torch.arange(len(rows["anchors"])) if whose is None else whose.long()

    own = rows["candidates"].ndim == 3
    place = options.get("positives")  # whole numbers: where positives are among the candidates
    if place is not None:
        rows = {"anchors": rows["anchors"], "positives": rows["candidates"][place], **rows}
    among = torch.zeros(len(rows["anchors"]), rows["candidates"].shape[-2], dtype=torch.bool)
    if place is not None:
        among[whose, place] = True

    def mine(part: Tensor) -> Tensor:
        return part[whose]

    def theirs(part: Tensor) -> Tensor:
        return part[whose] if own else part

    def of(anchors: Tensor, positives: Tensor, candidates: Tensor) -> Options:
        return {"anchors": mine(anchors), "positives": positives, "columns": [theirs(candidates)]}

    log_q = options.get("log_q")
    return [
        {
            **of(*rows.values()),
            "whose": whose,
            "eligible": ~among[whose],
            "mine": _keys(options, "", mine),
            "theirs": [_keys(options, "candidate_", theirs, own)],
            "valid": None if options.get("valid") is None else mine(options["valid"]),
            "judge": None if options.get("guide") is None else of(*map(_unit, options["guide"])),
            "of_positives": options.get("positive_log_q"),
            "of_columns": None if log_q is None else theirs(log_q),
        }
    ]


def _keys(
    options: Options,
    prefix: str,
    taken: Callable[[Tensor], Tensor] = lambda part: part,
    own: bool = False,
) -> dict[str, Tensor]:
    """Groups and domains, each ``[rows, keys]`` or ``[pairs, rows, keys]``."""
    found = {}
    for name in ("groups", "domains"):
        part = options.get(prefix + name)
        if part is not None:
            found[name] = taken(part.long().reshape(*part.shape[: 1 + own], -1))
    return found


def _unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows.double(), dim=-1, eps=0)


def _pairs(
    *,
    anchors: Tensor,
    positives: Tensor,
    columns: list[Tensor],
    whose: Tensor,
    eligible: Tensor,
    mine: dict[str, Tensor],
    theirs: list[dict[str, Tensor]],
    valid: Tensor | None,
    judge: Options | None,
    options: Options,
    temperature: float | Tensor,
    of_positives: Tensor | None = None,
    of_columns: Tensor | None = None,
    judged: int | None = None,
) -> Pairs:
    """Logits and masks of pairs whose anchors are repeated; ``judged`` columns have a margin."""
    counted, apart, start = eligible, torch.ones_like(eligible), 0
    for block, known in zip(columns, theirs, strict=True):
        part = slice(start, start + block.shape[-2])
        start = part.stop
        for name in known.keys() & mine.keys():
            one, other = mine[name][:, None], known[name]
            if name == "groups":
                shares = ((one == other) & (one != UNKNOWN)).any(dim=-1)
                apart = _within(apart, part, ~shares)
            else:
                fits = ((one == other) | (one == UNKNOWN) | (other == UNKNOWN)).all(dim=-1)
                counted = _within(counted, part, fits)
    if valid is not None:
        counted = counted & valid
    edge, margin = torch.inf, options.get("margin")
    of_pairs, similarities = _products(anchors, positives, columns)
    if margin is not None:
        seen = of_pairs, similarities
        if judge is not None:
            seen = _products(**judge)
        best = torch.stack([seen[0][whose == place].max() for place in whose])
        limit = (
            best + margin.absolute
            if margin.relative is None
            else torch.where(best > 0, best * margin.relative, best * (2 - margin.relative))
        )
        last = judged or seen[1].shape[1]
        ahead = (seen[1] - limit[:, None])[:, :last]
        edge = float(ahead.detach().abs().nan_to_num(torch.inf).min())
        counted = _within(counted, slice(0, last), ~(ahead > 0))
    with torch.no_grad():
        sizes = [rows.abs() for rows in (anchors, anchors / temperature, positives, *columns)]
        sums = _products(anchors.abs() / temperature, positives.abs(), [x.abs() for x in columns])
        finite = [x[x.isfinite()].max() for x in (*sizes, *sums) if x.isfinite().any()]
    positive, unlabeled = of_pairs / temperature, similarities / temperature
    if of_positives is not None and of_columns is not None:
        positive, unlabeled = positive - of_positives, unlabeled - of_columns
    weight = options.get("positive_weight")
    weight = torch.ones_like(positive) if weight is None else weight.to(positive)
    bound = max(map(float, finite), default=0.0)
    return Pairs(positive, unlabeled, counted, apart, weight, edge, bound)


def _within(mask: Tensor, part: slice, kept: Tensor) -> Tensor:
    mask = mask.clone()
    mask[:, part] &= kept
    return mask


def _products(anchors: Tensor, positives: Tensor, columns: list[Tensor]) -> tuple[Tensor, Tensor]:
    of_columns = [(anchors[:, None] * block).sum(dim=-1) for block in columns]
    return (anchors * positives).sum(dim=-1), torch.cat(of_columns, dim=1)

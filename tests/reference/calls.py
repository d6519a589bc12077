"""What a call of a loss stands for: the logits of each pair by itself, from the documentation.

Everything is held at once, as ``[pairs, columns]``: an anchor's row is repeated for each of its
positives. Rows come in float64, and of length 1 if the loss normalizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayescl import Rows

UNKNOWN = -1
Options = dict[str, Any]


class Pairs(NamedTuple):
    """The pairs of one direction."""

    positive: Tensor
    unlabeled: Tensor
    counted: Tensor
    """Which columns are candidates."""
    target: Tensor
    """Target probabilities, 0 for what is not a candidate."""
    weight: Tensor
    edge: float
    """How near a similarity comes to the margin."""
    bound: float
    """No sum or product on the way to a logit exceeds it."""

    def losses(self, row: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Weighted losses by a function of one pair's logits, with the term of the target."""
        losses = []
        for p, u, counts, y in zip(
            self.positive, self.unlabeled, self.counted, self.target, strict=True
        ):
            drawn = sum((y[j] * (p - u[j]) for j in counts.nonzero().flatten()), 0 * p)
            losses.append(row(p, u[counts]) + drawn)
        return self.weight * torch.stack(losses)


def arguments(layout: str, rows: dict[str, Tensor], options: Options) -> Options:
    """The keyword arguments of the call: metadata of one side goes into its ``Rows``."""
    given: Options = dict(rows)
    named = {"extra": "extra_", "candidates": "candidate_", "anchors": "anchor_"}
    named["positives"] = "positive_"
    for name, part in options.items():
        side = next(
            (one for one, prefix in named.items() if name == prefix + name.rpartition("_")[2]
             or name == prefix + "log_q"), None,
        )  # fmt: skip
        if side is None or name in ("anchor_of", "positive_weight", "positive_share"):
            if name not in ("positive_share", "teacher_temperature"):
                given[name] = part
            continue
        field = name.removeprefix(named[side])
        held = given[side] if isinstance(given[side], Rows) else Rows(given[side])
        given[side] = replace(held, **{field: part})
    if layout == "sampled" and "log_q" in given:
        log_q = given.pop("log_q")
        held = given["candidates"]
        held = held if isinstance(held, Rows) else Rows(held)
        given["candidates"] = replace(held, log_q=log_q)
    return given


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
        name: part[first].where(
            has_any.view(-1, *[1] * (part.ndim - 1)), 0.0 if name == "teacher" else UNKNOWN
        )
        for name, part in known.items()
    }
    of_anchors |= _keys(options, "anchor_")
    mine = {name: part[whose] for name, part in of_anchors.items()}
    valid, log_q = (options.get(name) for name in ("valid", "log_q"))

    def of(anchors: Tensor, pairs: Tensor, extra: Tensor | None = None) -> Options:
        more = [] if extra is None else [extra[whose] if extra.ndim == 3 else extra]
        return {"anchors": anchors[whose], "positives": pairs, "columns": [pairs, *more]}

    eligible = whose[:, None] != whose
    forward: Options = of(anchors, pairs, extra) | {
        "whose": whose,
        "mine": mine,
        "theirs": [known],
        "valid": None if valid is None else valid[whose],
        "of_positives": log_q,
        "of_columns": log_q,
        "own_teacher": known.get("teacher"),
        "judged": count,
    }
    if extra is not None:
        width = extra.shape[-2]
        eligible = torch.cat([eligible, torch.ones(count, width, dtype=torch.bool)], dim=1)
        own = extra.ndim == 3
        more = _keys(options, "extra_", lambda part: part[whose] if own else part, own)
        forward["theirs"].append(more)
        if log_q is not None:
            more_q = options.get("extra_log_q", torch.zeros(extra.shape[:-1]))
            more_q = more_q[whose] if own else more_q
            forward["of_columns"] = torch.cat(
                [log_q.expand(*more_q.shape[:-1], -1), more_q.to(log_q.dtype)], dim=-1
            )
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
                "of_positives": None if log_q is None else log_q[whose],
                "of_columns": log_q,
                "own_teacher": mine.get("teacher"),
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
            "mine": _keys(options, "", mine) | _keys(options, "anchor_", mine),
            "theirs": [_keys(options, "candidate_", theirs, own)],
            "own_teacher": _keys(options, "positive_").get("teacher"),
            "valid": None if options.get("valid") is None else mine(options["valid"]),
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
    """Metadata of rows, each ``[rows, ...]`` or ``[pairs, rows, ...]``."""
    found = {}
    for name in ("groups", "domains", "labels", "teacher"):
        part = options.get(prefix + name)
        if part is None:
            continue
        if name == "teacher":
            part = torch.nn.functional.normalize(part.double(), dim=-1, eps=0).nan_to_num(0.0)
        elif name != "labels":
            part = part.long().reshape(*part.shape[: 1 + own], -1)
        found[name] = taken(part)
    return found


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
    options: Options,
    temperature: float | Tensor,
    of_positives: Tensor | None = None,
    of_columns: Tensor | None = None,
    own_teacher: Tensor | None = None,
    judged: int | None = None,
) -> Pairs:
    """Logits and masks of pairs whose anchors are repeated; ``judged`` columns have a margin."""
    counted, start = eligible, 0
    likeness = torch.full(eligible.shape, -torch.inf, dtype=torch.float64)
    seen = torch.full(eligible.shape, -torch.inf, dtype=torch.float64)  # by the teacher
    for block, known in zip(columns, theirs, strict=True):
        part = slice(start, start + block.shape[-2])
        start = part.stop
        for name in ("groups", "domains", "teacher", "labels"):
            if name not in known or name not in mine:
                continue
            one, other = mine[name][:, None], known[name]
            if name == "groups":
                fits = ~((one == other) & (one != UNKNOWN)).any(dim=-1)
                counted = _within(counted, part, fits)
            elif name == "domains":
                fits = ((one == other) | (one == UNKNOWN) | (other == UNKNOWN)).all(dim=-1)
                counted = _within(counted, part, fits)
            elif name == "teacher":
                likeness[:, part] = seen[:, part] = (one * other).sum(dim=-1)
            else:
                sure = (one != UNKNOWN) & (other != UNKNOWN)
                likeness[:, part] = torch.where(sure & (one == other), 1.0, likeness[:, part])
                likeness[:, part] = torch.where(
                    sure & (one != other), -torch.inf, likeness[:, part]
                )
    if valid is not None:
        counted = counted & valid
    edge, margin = torch.inf, options.get("margin")
    of_pairs, similarities = _products(anchors, positives, columns)
    if margin is not None:
        scores = of_pairs, similarities
        if margin.by_teacher:
            mates = mine["teacher"] if own_teacher is None else own_teacher
            scores = (mine["teacher"] * mates).sum(dim=-1), seen
        best = torch.stack([scores[0][whose == place].max() for place in whose])
        limit = (
            best + margin.absolute
            if margin.relative is None
            else torch.where(best > 0, best * margin.relative, best * (2 - margin.relative))
        )
        last = judged or scores[1].shape[1]
        ahead = (scores[1] - limit[:, None])[:, :last]
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
    chosen = options.get("teacher_temperature") or float(torch.as_tensor(temperature).detach())
    target = _target(likeness, counted, chosen, options.get("positive_share", 0.5))
    return Pairs(positive, unlabeled, counted, target, weight, edge, bound)


def _target(likeness: Tensor, counted: Tensor, temperature: float, share: float | None) -> Tensor:
    """Target probabilities, one row at a time."""
    target = torch.zeros_like(likeness)
    for row, counts, out in zip(likeness, counted, target, strict=True):
        some = [j for j in range(len(row)) if counts[j] and row[j] > -torch.inf]
        if not some:
            continue
        logits = row[some] / temperature
        if share is None:
            own = torch.tensor([1 / temperature], dtype=torch.float64)
            out[some] = torch.cat([logits, own]).softmax(0)[:-1]
        else:
            out[some] = (1 - share) * logits.softmax(0)
    return target


def _within(mask: Tensor, part: slice, kept: Tensor) -> Tensor:
    mask = mask.clone()
    mask[:, part] &= kept
    return mask


def _products(anchors: Tensor, positives: Tensor, columns: list[Tensor]) -> tuple[Tensor, Tensor]:
    of_columns = [(anchors[:, None] * block).sum(dim=-1) for block in columns]
    return (anchors * positives).sum(dim=-1), torch.cat(of_columns, dim=1)

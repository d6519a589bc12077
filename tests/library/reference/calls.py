"""What a call of a loss stands for: the logits of each pair by itself, from the documentation.

All values are stored at once, as ``[pairs, columns]``: an anchor's row is repeated for each of its
positives. Rows come in float64, and of length 1 if the loss normalizes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bayescl import Margin, Rows

UNKNOWN = -1
SIDES = ("view_1", "view_2", "anchors", "positives", "extra", "candidates", "positive", "unlabeled")
"""Arguments that receive gradients, by name."""
Part = dict[str, Any]


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


def rows_of(part: Tensor | Rows) -> Rows:
    return part if isinstance(part, Rows) else Rows(part)


def leaves_of(given: dict[str, Any]) -> dict[str, Tensor]:
    """The embeddings or logits among the arguments of a call, by name."""
    sides = {name: rows_of(given[name]).embeddings for name in SIDES if name in given}
    return {name: part for name, part in sides.items() if part.is_floating_point()}


def with_leaves(given: dict[str, Any], leaves: dict[str, Tensor]) -> dict[str, Any]:
    """The arguments of a call with other embeddings or logits."""
    changed = {
        name: replace(given[name], embeddings=leaf) if isinstance(given[name], Rows) else leaf
        for name, leaf in leaves.items()
    }
    return given | changed


def pairs_of(
    layout: str,
    given: dict[str, Any],
    temperature: float | Tensor,
    positive_share: float | None = 0.5,
    teacher_temperature: float | None = None,
) -> list[Pairs]:
    """The pairs of each direction of a call, given its arguments by name."""
    if layout == "from_logits":
        return [_of_logits(**given)]
    scale = teacher_temperature or float(torch.as_tensor(temperature).detach())
    shared = {"temperature": temperature, "rule": (scale, positive_share)}
    shared |= {name: given.get(name) for name in ("margin", "positive_weight")}
    rest = {name: part for name, part in given.items() if name not in shared}
    made = {"two_views": _two_views, "in_batch": _in_batch, "sampled": _sampled}[layout]
    return [_pairs(**part, **shared) for part in made(**rest)]


def _of_logits(
    positive: Tensor, unlabeled: Tensor, valid: Tensor | None = None, target: Tensor | None = None
) -> Pairs:
    counted = unlabeled != -torch.inf
    if valid is not None:
        counted = counted & valid
    target = torch.zeros_like(unlabeled) if target is None else target.double()
    finite = [part[part.isfinite()].detach().abs() for part in (positive, unlabeled)]
    bound = max([float(part.max()) for part in finite if part.numel()], default=0.0)
    target = target.masked_fill(~counted, 0.0)
    return Pairs(positive, unlabeled, counted, target, torch.ones_like(positive), torch.inf, bound)


def _two_views(
    view_1: Tensor,
    view_2: Tensor,
    *,
    valid: Tensor | None = None,
    target: Tensor | None = None,
    **known: Tensor,
) -> list[Part]:
    both, count, place = torch.cat([view_1, view_2]), len(view_1), torch.arange(2 * len(view_1))
    keys = {name: torch.cat([part, part]) for name, part in _keys(known).items()}
    return [
        {
            "anchors": both,
            "positives": both.roll(count, 0),
            "columns": [both],
            "whose": place,
            "eligible": place[:, None] % count != place % count,
            "mine": keys,
            "theirs": [keys],
            "valid": valid,
            "target": target,
        }
    ]


def _in_batch(
    anchors: Tensor | Rows,
    positives: Tensor | Rows,
    *,
    extra: Tensor | Rows | None = None,
    anchor_of: Tensor | None = None,
    valid: Tensor | None = None,
    target: Tensor | None = None,
    log_q: Tensor | None = None,
    both_directions: bool = False,
    **known: Tensor,
) -> list[Part]:
    left, right = rows_of(anchors), rows_of(positives)
    count, pairs = len(right), right.embeddings
    whose = torch.arange(count) if anchor_of is None else anchor_of.long()
    owns = whose == torch.arange(len(left))[:, None]  # [anchors, pairs]
    has_any, first = owns.any(dim=1), owns.int().argmax(dim=1)
    of_pairs = _keys(known | right.metadata)
    of_anchors = {
        name: part[first].where(
            has_any.view(-1, *[1] * (part.ndim - 1)), 0.0 if name == "teacher" else UNKNOWN
        )
        for name, part in of_pairs.items()
    }
    of_anchors |= _keys(left.metadata)
    mine = {name: part[whose] for name, part in of_anchors.items()}
    forward: Part = {
        "anchors": left.embeddings[whose],
        "positives": pairs,
        "columns": [pairs],
        "whose": whose,
        "eligible": whose[:, None] != whose,
        "mine": mine,
        "theirs": [of_pairs],
        "valid": None if valid is None else valid[whose],
        "target": None if target is None else target.to_dense()[whose],
        "of_positives": log_q,
        "of_columns": log_q,
        "own_teacher": of_pairs.get("teacher"),
        "judged": count,
    }
    if extra is not None:
        more = rows_of(extra)
        if more.are_own:
            more = more[whose]
        forward["columns"].append(more.embeddings)
        forward["theirs"].append(_keys(more.metadata, more.are_own))
        every = torch.ones(count, len(more), dtype=torch.bool)
        forward["eligible"] = torch.cat([forward["eligible"], every], dim=1)
        if log_q is not None:
            shape = more.embeddings.shape[:-1]
            of_more = torch.zeros(shape) if more.log_q is None else more.log_q
            of_right = log_q.expand(*shape[:-1], -1)
            forward["of_columns"] = torch.cat([of_right, of_more.to(log_q.dtype)], dim=-1)
    if not both_directions:
        return [forward]
    backward = {
        "anchors": pairs,
        "positives": left.embeddings[whose],
        "columns": [left.embeddings],
        "whose": torch.arange(count),
        "eligible": whose[:, None] != torch.arange(len(left)),
        "mine": of_pairs,
        "theirs": [of_anchors],
        "valid": None if valid is None else valid[:, :count].T,
        "target": None if target is None else target.to_dense()[:, :count].T,
        "of_positives": None if left.log_q is None else left.log_q[whose],
        "of_columns": left.log_q,
        "own_teacher": mine.get("teacher"),
    }
    return [forward, backward]


def _sampled(
    anchors: Tensor | Rows,
    positives: Tensor | Rows,
    candidates: Tensor | Rows,
    *,
    anchor_of: Tensor | None = None,
    valid: Tensor | None = None,
    target: Tensor | None = None,
    **known: Tensor,
) -> list[Part]:
    left, right, drawn = rows_of(anchors), rows_of(positives), rows_of(candidates)
    whose = torch.arange(len(left)) if anchor_of is None else anchor_of.long()
    eligible = torch.ones(len(left), len(drawn), dtype=torch.bool)
    if not right.embeddings.is_floating_point():  # places among the candidates
        place = right.embeddings.long()
        eligible[whose, place] = False
        right = Rows(drawn.embeddings[place])
    if drawn.are_own:
        drawn = drawn[whose]
    mine = _keys(known | left.metadata)
    return [
        {
            "anchors": left.embeddings[whose],
            "positives": right.embeddings,
            "columns": [drawn.embeddings],
            "whose": whose,
            "eligible": eligible[whose],
            "mine": {name: part[whose] for name, part in mine.items()},
            "theirs": [_keys(drawn.metadata, drawn.are_own)],
            "own_teacher": _keys(right.metadata).get("teacher"),
            "valid": None if valid is None else valid[whose],
            "target": None if target is None else target.to_dense()[whose],
            "of_positives": right.log_q,
            "of_columns": drawn.log_q,
        }
    ]


def _keys(known: dict[str, Tensor], own: bool = False) -> dict[str, Tensor]:
    """Metadata of rows, each ``[rows, ...]`` or ``[pairs, rows, ...]``."""
    found = {}
    for name in ("groups", "domains", "labels", "teacher"):
        part = known.get(name)
        if part is None:
            continue
        if name == "teacher":
            part = torch.nn.functional.normalize(part.double(), dim=-1, eps=0).nan_to_num(0.0)
        elif name != "labels":
            part = part.long().reshape(*part.shape[: 1 + own], -1)
        elif part.ndim > 1 + own:  # several classes; -1 or NaN is unknown
            part = part.double().nan_to_num(UNKNOWN)
            part = part.where((part >= 0).all(dim=-1, keepdim=True), UNKNOWN)
        found[name] = part
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
    margin: Margin | None,
    positive_weight: Tensor | None,
    temperature: float | Tensor,
    rule: tuple[float, float | None],
    target: Tensor | None,
    of_positives: Tensor | None = None,
    of_columns: Tensor | None = None,
    own_teacher: Tensor | None = None,
    judged: int | None = None,
) -> Pairs:
    """Logits and masks of pairs whose anchors are repeated.

    ``judged`` columns have a margin, or all of them if ``margin.extra`` is set.
    """
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
                if "labels" in known and "labels" in mine and rule[1] != 1 and target is None:
                    fits = fits | (_classes_in_common(mine["labels"], known["labels"]) > 0)
                counted = _within(counted, part, fits)
            elif name == "teacher":
                cosine = (one * other).sum(dim=-1)
                is_known = one.any(dim=-1) & other.any(dim=-1)
                likeness[:, part] = seen[:, part] = cosine.where(is_known, -torch.inf)
            else:
                common = _classes_in_common(mine["labels"], other)
                likeness[:, part] = common.where(common > 0, likeness[:, part])
                likeness[:, part] = likeness[:, part].where(common != 0, -torch.inf)
    if valid is not None:
        counted = counted & valid
    edge = torch.inf
    of_pairs, similarities = _products(anchors, positives, columns)
    if margin is not None:
        scores = of_pairs, similarities
        if margin.by_teacher:
            mates = mine["teacher"] if own_teacher is None else own_teacher
            is_known = mine["teacher"].any(dim=-1) & mates.any(dim=-1)
            of_pairs_seen = (mine["teacher"] * mates).sum(dim=-1).where(is_known, -torch.inf)
            scores = of_pairs_seen, seen
        best = torch.stack([scores[0][whose == place].max() for place in whose])
        limit = (
            best + margin.absolute
            if margin.relative is None
            else torch.where(best > 0, best * margin.relative, best * (2 - margin.relative))
        )
        if margin.by_teacher:
            limit = limit.where(best > -torch.inf, torch.inf)  # no positive has a teacher
        last = scores[1].shape[1] if judged is None or margin.extra else judged
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
    ones = torch.ones_like(positive)
    weight = ones if positive_weight is None else positive_weight.to(positive)
    bound = max(map(float, finite), default=0.0)
    probabilities = _target(likeness, counted, *rule)
    if target is not None:
        probabilities = target.to_dense().double().masked_fill(~counted, 0.0)
    return Pairs(positive, unlabeled, counted, probabilities, weight, edge, bound)


def _classes_in_common(one: Tensor, other: Tensor) -> Tensor:
    """Whether classes are equal, or the share of those that both have; NaN if unknown."""
    if not one.is_floating_point():
        return (
            (one[:, None] == other)
            .double()
            .where((one[:, None] != UNKNOWN) & (other != UNKNOWN), torch.nan)
        )
    one, other = torch.broadcast_tensors(one[:, None], other)
    common, either = ((one == 1) & (other == 1)).sum(-1), ((one == 1) | (other == 1)).sum(-1)
    is_known = (one != UNKNOWN).all(-1) & (other != UNKNOWN).all(-1)
    return (common.double() / either.clamp(min=1)).where(is_known, torch.nan)


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

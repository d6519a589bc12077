"""A queue hands out the newest rows, never a place that was not filled, and resumes exactly."""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest
import torch
from cases import each, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import bayescl
from bayescl import CandidateQueue

drawn = partial(rows, dim=3)


def numbered(start: int, count: int) -> Tensor:
    """Rows that say when they came: [start, 1], [start + 1, 1], ..."""
    numbers = torch.arange(start, start + count, dtype=torch.float32)
    return torch.stack([numbers, torch.ones(count)], dim=1)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 9), batches=st.lists(st.integers(0, 20), max_size=6))
def test_the_newest_rows_are_kept_with_their_groups(size: int, batches: list[int]) -> None:
    queue, one_by_one = CandidateQueue(size, 2, groups=True), CandidateQueue(size, 2, groups=True)
    newest: deque[int] = deque(maxlen=size)
    came = 0
    for batch in batches:
        queue.enqueue(numbered(came, batch), torch.arange(came, came + batch))
        for row in range(came, came + batch):
            one_by_one.enqueue(numbered(row, 1), torch.tensor([row]))
            newest.append(row)
        came += batch
    assert queue.filled == len(newest)
    if not newest:
        assert queue.candidates is None
        assert queue.groups is None
        return
    assert sorted(queue.candidates[:, 0].tolist()) == list(newest)
    assert queue.groups.tolist() == queue.candidates[:, 0].tolist()
    # Not only the same rows but the same places, so batch sizes leave no trace.
    assert torch.equal(queue.embeddings, one_by_one.embeddings)


def test_places_that_were_never_filled_are_no_candidates() -> None:
    loss, users, items = bayescl.BayesianContrastiveLoss(), drawn(4, 0), drawn(4, 1)
    queue = CandidateQueue(100, 3)
    queue.enqueue(drawn(5, 2))
    assert torch.equal(
        loss.in_batch(users, items, extra=queue.candidates),
        loss.in_batch(users, items, extra=drawn(5, 2)),
    )
    # The same in one shape from the first step on, by mask.
    valid = (torch.arange(100) < queue.filled).expand(4, -1)
    masked = loss.sampled(users, items, queue.embeddings, valid=valid)
    torch.testing.assert_close(masked, loss.sampled(users, items, drawn(5, 2)))


@each("before", [(3,), (3, 2, 5)])
def test_resuming_from_a_saved_state_continues_exactly(before: tuple[int, ...], tmp_path) -> None:
    queue = CandidateQueue(7, 3, groups=True)
    for step, count in enumerate(before):
        queue.enqueue(drawn(count, step), torch.full((count,), step))
    torch.save(queue.state_dict(), tmp_path / "queue.pt")
    resumed = CandidateQueue(7, 3, groups=True)
    resumed.load_state_dict(torch.load(tmp_path / "queue.pt", weights_only=True))
    assert resumed.filled == queue.filled == min(7, sum(before))
    for step, count in enumerate((1, 4, 9, 2), start=10):
        for one in (queue, resumed):
            one.enqueue(drawn(count, step), torch.full((count,), step))
        assert torch.equal(queue.candidates, resumed.candidates)
        assert torch.equal(queue.groups, resumed.groups)
        assert torch.equal(queue.embeddings, resumed.embeddings)


@each("normalize", [True, False])
def test_rows_may_be_enqueued_before_the_loss_is_differentiated(normalize: bool) -> None:
    loss = bayescl.InfoNCELoss(normalize=normalize)
    queue = CandidateQueue(4, 3)
    queue.enqueue(drawn(4, 0))
    users, items = drawn(3, 1).requires_grad_(), drawn(3, 2).requires_grad_()
    value = loss.sampled(users, items, queue.candidates)
    queue.enqueue(items)
    value.backward()
    fresh = drawn(3, 1).requires_grad_()
    loss.sampled(fresh, drawn(3, 2), drawn(4, 0)).backward()
    torch.testing.assert_close(users.grad, fresh.grad)
    assert not queue.candidates.requires_grad


@each(
    "groups",
    [
        torch.tensor([0, 255, 0], dtype=torch.uint8),
        torch.tensor([-3, -2, -3]),
        torch.tensor([True, False, True]),
    ],
)
def test_rows_without_groups_beside_anchors_with_groups_belong_to_nobody(groups: Tensor) -> None:
    loss, users, items = bayescl.BayesianContrastiveLoss(), drawn(3, 0), drawn(3, 1)
    value = loss.in_batch(users, items, extra=drawn(4, 2), groups=groups)
    valid = torch.cat([groups[:, None] != groups, torch.ones(3, 4, dtype=torch.bool)], dim=1)
    expected = loss.in_batch(users, items, extra=drawn(4, 2), valid=valid)
    torch.testing.assert_close(value, expected)


def test_rows_take_the_precision_of_the_queue() -> None:
    queue = CandidateQueue(4, 3)
    queue.enqueue(drawn(2, 0).bfloat16())
    assert queue.candidates.dtype == torch.float32
    queue.double().enqueue(drawn(1, 1))
    assert queue.candidates.dtype == torch.float64


@each(
    ("call", "message"),
    [
        (lambda: CandidateQueue(0, 3), "size must be a whole number of at least 1, got 0"),
        (lambda: CandidateQueue(4, 2.5), "dim must be a whole number of at least 1, got 2.5"),
        (lambda: CandidateQueue(4, 3).enqueue(rows(2, 0, 5)), r"embeddings .*\[rows, 3\], got"),
        (lambda: CandidateQueue(4, 3).enqueue(torch.ones(2, 3).long()), "embeddings must hold fl"),
        (lambda: CandidateQueue(4, 3).enqueue(drawn(2, 0), torch.arange(2)), "groups must be None"),
        (lambda: CandidateQueue(4, 3, groups=True).enqueue(drawn(2, 0)), "groups must be given"),
        (
            lambda: CandidateQueue(4, 3, groups=True).enqueue(drawn(2, 0), torch.arange(3)),
            r"groups must have shape \[2\], got \[3\]",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_refused_batch_leaves_the_queue_as_it_was() -> None:
    queue = CandidateQueue(4, 3, groups=True)
    queue.enqueue(drawn(2, 0), torch.arange(2))
    with pytest.raises(ValueError, match="groups"):
        queue.enqueue(drawn(2, 1), torch.arange(5))
    assert "size=4, dim=3, groups=True, filled=2" in repr(queue)
    assert torch.equal(queue.candidates, drawn(2, 0))

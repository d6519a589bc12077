"""Adapters on two processes: equal to the library's own losses, and to one process."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from ranks import launch

from integrations import on_ranks
from integrations.on_ranks import assert_same

pytestmark = [pytest.mark.distributed, pytest.mark.filterwarnings("default")]
found_by = cache(lambda work: launch.run(work, 2, seconds=300))


@pytest.mark.parametrize(
    ("library", "work"),
    [
        ("lightly", on_ranks.lightly),
        ("pytorch_metric_learning", on_ranks.metric_learning),
        ("open_clip", on_ranks.open_clip),
        ("sentence_transformers", on_ranks.texts),
    ],
)
def test_two_processes_are_two_processes_of_theirs(library: str, work) -> None:
    pytest.importorskip(library, reason=f"needs {library}")
    for rank in found_by(work):
        ours = [name for name in rank if name.startswith("ours")]
        assert ours
        for name in ours:
            assert_same(rank[name], rank[name.replace("ours", "theirs")])


def test_pairs_of_unequal_batches_are_those_of_one_process_with_the_whole_batch() -> None:
    pytest.importorskip("open_clip", reason="needs open_clip")
    from bayescl.integrations.open_clip import BayesianClipLoss

    wanted = on_ranks.pairs_of_clip(BayesianClipLoss(), groups=on_ranks.GROUPS)
    found = [rank["unequal"] for rank in found_by(on_ranks.open_clip)]
    # Averaging over processes, as DistributedDataParallel does, halves each row's gradient.
    sides = [[row for rank in found for row in rank[side]] for side in (1, 2)]
    sides = [(torch.tensor(side) / 2).tolist() for side in sides]
    value, scale = (sum(rank[place] for rank in found) / 2 for place in (0, 3))
    assert_same([value, *sides, scale], wanted)


def test_texts_of_unequal_batches_are_those_of_one_process_with_the_whole_batch() -> None:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    from bayescl.integrations.sentence_transformers import BayesianRankingLoss

    ranks = found_by(on_ranks.texts)
    for options in on_ranks.RANKING:
        wanted = on_ranks.step_of_texts(BayesianRankingLoss, slice(0, 6), **options)
        value = sum(rank[str(options)][0] for rank in ranks) / 2
        for rank in ranks:
            assert_same([value, *rank[str(options)][1:]], wanted)

"""Adapters on two processes: equal to the library's own losses, and to one process."""

import pytest
import torch
from ranks import launch

import bayescl
from integrations import on_ranks
from integrations.on_ranks import assert_same

pytestmark = [pytest.mark.distributed, pytest.mark.filterwarnings("default")]


def assert_pairs_are_those_of_one_process(ranks: list) -> None:
    from bayescl.integrations.open_clip import ClipLoss

    loss = ClipLoss(loss=bayescl.BayesianContrastiveLoss)
    wanted = on_ranks.pairs_of_clip(loss, groups=on_ranks.GROUPS)
    steps = [rank["unequal"] for rank in ranks]
    # Averaging over processes, as DistributedDataParallel does, halves each row's gradient.
    sides = [[row for step in steps for row in step[side]] for side in (1, 2)]
    sides = [(torch.tensor(side) / 2).tolist() for side in sides]
    value, scale = (sum(step[place] for step in steps) / 2 for place in (0, 3))
    assert_same([value, *sides, scale], wanted)


def assert_texts_are_those_of_one_process(ranks: list) -> None:
    for options in on_ranks.RANKING:
        wanted = on_ranks.step_of_texts(on_ranks.bayesian_of_texts, slice(0, 6), **options)
        value = sum(rank[str(options)][0] for rank in ranks) / 2
        for rank in ranks:
            assert_same([value, *rank[str(options)][1:]], wanted)


def test_two_processes_are_two_of_theirs_and_one_with_the_whole_batch():
    """One launch for all libraries, since starting processes takes longest."""
    ranks = launch.run(on_ranks.every_library, 2, seconds=600)
    if not ranks[0]:
        pytest.skip("needs one of the libraries")
    for library in ranks[0]:
        for rank in ranks:
            ours = [name for name in rank[library] if name.startswith("ours")]
            assert ours
            for name in ours:
                assert_same(rank[library][name], rank[library][name.replace("ours", "theirs")])
    if "open_clip" in ranks[0]:
        assert_pairs_are_those_of_one_process([rank["open_clip"] for rank in ranks])
    if "sentence_transformers" in ranks[0]:
        assert_texts_are_those_of_one_process([rank["sentence_transformers"] for rank in ranks])

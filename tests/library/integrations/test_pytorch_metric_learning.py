"""Losses for pytorch-metric-learning: equal to its NTXentLoss with all that may stand around it."""

import pytest
import torch

pytest.importorskip("pytorch_metric_learning", reason="needs pytorch-metric-learning")

from pytorch_metric_learning import distances, losses, miners, reducers, regularizers

import bayescl
from bayescl.integrations import pytorch_metric_learning as ours

LABELS = torch.tensor([0, 0, 1, 1, 1, 2, 2, 3])


def rows(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=generator).requires_grad_()


def assert_same(mine, reference, call) -> None:
    """Values and gradients of ``call(loss, embeddings, others)`` agree."""
    outcomes = []
    for loss in (mine, reference):
        inputs = rows(8, 0), rows(8, 1)
        value = call(loss, *inputs)
        value.backward()
        outcomes.append((value.detach(), [rows.grad for rows in inputs]))
    (value, found), (expected, wanted) = outcomes
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


OPTIONS = {
    "as it is": {},
    "Euclidean distance": {"distance": distances.LpDistance()},
    "inner product": {"distance": distances.DotProductSimilarity(normalize_embeddings=False)},
    "threshold reducer": {"reducer": reducers.AvgNonZeroReducer()},
    "anchor reducer": {"reducer": reducers.PerAnchorReducer()},
    "regularizer": {"embedding_regularizer": regularizers.LpRegularizer()},
}


@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_info_nce_is_their_ntxent_loss(temperature):
    for name, options in OPTIONS.items():
        # Theirs stops at 87 for one pair, where its exponential underflows.
        scale = temperature * (10 if name == "inner product" else 1)
        made = [kind(scale, **options) for kind in (ours.NTXentLoss, losses.NTXentLoss)]
        assert_same(*made, lambda loss, first, _: loss(first, LABELS))


MINERS = {
    "pairs": miners.MultiSimilarityMiner(epsilon=0.2),
    "triplets": miners.TripletMarginMiner(margin=0.5, type_of_triplets="all"),
    "few negatives": miners.BatchEasyHardMiner(),
}
TWICE = tuple(torch.tensor(places) for places in ([0, 0, 2], [1, 1, 3], [0, 0, 0, 2], [4, 4, 5, 6]))


def three_steps(loss, first, second) -> torch.Tensor:
    memory = losses.CrossBatchMemory(loss, 6, memory_size=20)
    steps = [memory(rows, LABELS) for rows in (first.detach(), second.detach(), first * 2 + second)]
    return steps[-1]


class Plain(distances.CosineSimilarity):
    """The same distance, of a class that only the library's own code computes."""


CALLS = {
    "labels": lambda loss, first, _: loss(first, LABELS),
    "labels that are floats": lambda loss, first, _: loss(first, LABELS.float()),
    "two rows of each label": lambda loss, first, _: loss(
        first, torch.tensor([3, 0, 0, 2, 1, 3, 2, 1])
    ),
    "two views": lambda loss, first, second: losses.SelfSupervisedLoss.forward(
        ours.SelfSupervisedLoss(loss), first, second
    ),
    "two views at once": lambda loss, first, second: ours.SelfSupervisedLoss(loss)(first, second),
    "one direction": lambda loss, first, second: ours.SelfSupervisedLoss(loss, symmetric=False)(
        first, second
    ),
    "references": lambda loss, first, second: loss(
        first, LABELS, ref_emb=second, ref_labels=LABELS.roll(3)
    ),
    **{
        name: lambda loss, first, _, miner=miner: loss(first, LABELS, miner(first.detach(), LABELS))
        for name, miner in MINERS.items()
    },
    "a pair named twice": lambda loss, first, _: loss(first, LABELS, TWICE),
}
REDUCERS = [
    reducers.MeanReducer(),
    reducers.MeanReducer(collect_stats=True),
    reducers.PerAnchorReducer(),
    reducers.ThresholdReducer(low=2.0),
]
DISTANCES = (distances.CosineSimilarity, Plain)


@pytest.mark.parametrize("call", [*CALLS.values(), three_steps])
def test_info_nce_is_theirs_in_every_call(call):
    assert_same(ours.NTXentLoss(0.2), losses.NTXentLoss(0.2), call)


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("name", ["InfoNCELoss", "HardContrastiveLoss", "BayesianContrastiveLoss"])
def test_cosines_of_our_own_give_what_the_librarys_matrix_gives(name, call):
    for reducer in REDUCERS:
        options = {"temperature": 0.3, "reducer": reducer, "loss": getattr(bayescl, name)}
        made = [ours.NTXentLoss(distance=way(), **options) for way in DISTANCES]
        assert_same(*made, CALLS[call])


def test_without_negatives_or_positives_nothing_is_paid():
    pairs = tuple(torch.tensor(places) for places in ([0, 0], [1, 2], [3, 3], [4, 5]))
    alone, equal = torch.arange(8), torch.zeros(8, dtype=torch.int64)
    calls = [(LABELS, pairs, way) for way in DISTANCES]
    calls += [(labels, None, distances.CosineSimilarity) for labels in (alone, equal)]
    for labels, named, distance in calls:
        embeddings = rows(8, 0)
        value = ours.NTXentLoss(loss=bayescl.BayesianContrastiveLoss, distance=distance())(
            embeddings, labels, named
        )
        value.backward()
        assert value == 0
        assert not embeddings.grad.any()
    assert ours.SelfSupervisedLoss(ours.NTXentLoss())(rows(1, 0), rows(1, 1)) == 0


@pytest.mark.parametrize("known", [{}, {"groups": LABELS}, {"teacher": rows(8, 2).detach()}])
@pytest.mark.parametrize("name", ["InfoNCELoss", "HardContrastiveLoss", "BayesianContrastiveLoss"])
def test_two_views_with_metadata_have_our_own_loss_and_a_regularizer(name, known):
    options = {"temperature": 0.3, "positive_share": 0.2}
    direct = getattr(bayescl, name)(**options)
    for reducer in REDUCERS[:2]:
        wrapped = ours.SelfSupervisedLoss(
            ours.NTXentLoss(
                loss=getattr(bayescl, name),
                reducer=reducer,
                embedding_regularizer=regularizers.LpRegularizer(),
                **options,
            )
        )

        def call(loss, first, second, wrapped=wrapped) -> torch.Tensor:
            norm = torch.cat([first, second]).norm(dim=1).mean()
            return loss(first, second, **known) + (0 if loss is wrapped else norm)

        assert_same(wrapped, direct, call)
        assert wrapped.loss.metadata == {}


def test_metadata_of_two_views_needs_rows_of_both_as_anchors():
    loss = ours.SelfSupervisedLoss(ours.NTXentLoss(), symmetric=False)
    with pytest.raises(ValueError, match="to pass groups, use symmetric=True"):
        loss(rows(8, 0), rows(8, 1), groups=torch.arange(8))


def test_a_learnable_temperature_is_trained():
    temperature = bayescl.LearnableTemperature(0.2)
    loss = ours.NTXentLoss(temperature)
    assert loss.temperature == pytest.approx(0.2)
    loss(rows(8, 0), LABELS).backward()
    assert temperature.logit.grad is not None
    assert temperature.logit.grad != 0

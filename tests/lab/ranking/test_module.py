import numpy as np
import pytest
import torch
from ranking.checkerboard import checkerboard

from bayescl.losses import InfoNCELoss
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.encoders import LightGCN, MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.propagation import normalized_graph

TRAIN = checkerboard(2, 6, 5).train


def module(**changes) -> RankingModule:
    torch.manual_seed(0)
    settings = {
        "encoder": MatrixFactorization(TRAIN, 4),
        "loss": InfoNCELoss(temperature=0.2),
        "candidates": 5,
        "learning_rate": 0.01,
        "total_steps": 9,
        "seed": 3,
        **changes,
    }
    return RankingModule(**settings)


def batch():
    return next(iter(UserBatches(TRAIN, 16, 0)))


def test_checkpoints_hold_embeddings_and_the_state_of_the_loss_and_no_data():
    state = module(loss=InfoNCELoss(temperature=0.123)).state_dict()
    assert sorted(key for key, value in state.items() if isinstance(value, torch.Tensor)) == [
        "encoder.item_table",
        "encoder.user_table",
    ]
    other = module()
    other.load_state_dict(state)
    assert other.loss.temperature == 0.123


def pairs_of(batch):
    users = batch.users[batch.anchor_of]
    return list(zip(users.tolist(), batch.items.tolist(), strict=True))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
def test_an_epoch_shows_every_pair_once_and_processes_share_every_batch_in_its_order(num_ranks):
    alone = UserBatches(TRAIN, 7, 0)
    shared = [UserBatches(TRAIN, 7, 0, rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    seen = []
    for whole, *parts in zip(alone, *shared, strict=True):
        assert [pair for part in parts for pair in pairs_of(part)] == pairs_of(whole)
        sizes = [len(part.users) for part in parts]
        assert min(sizes) > 0
        assert max(sizes) - min(sizes) <= 1
        seen.append(whole)
    everything = sorted(pair for batch in seen for pair in pairs_of(batch))
    assert everything == sorted(zip(*(column.tolist() for column in TRAIN.pairs()), strict=True))
    assert len(seen) == len(alone)
    assert {len(batch.users) for batch in seen} <= {6, 7}
    assert all(len(batch.users.unique()) == len(batch.users) for batch in seen)


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else():
    def order(epoch, seed=0):
        batches = UserBatches(TRAIN, 8, seed)
        batches.set_epoch(epoch)
        return torch.cat([batch.items for batch in batches])

    torch.manual_seed(1)
    first = order(3)
    torch.manual_seed(2)
    assert torch.equal(order(3), first)
    assert not torch.equal(order(4), first)
    assert not torch.equal(order(3, seed=1), first)


def dense_graph(train: Interactions) -> torch.Tensor:
    liked = torch.from_numpy(train.matrix.toarray()).double()
    users, items = liked.shape
    whole = torch.zeros(users + items, users + items, dtype=torch.float64)
    whole[:users, users:], whole[users:, :users] = liked, liked.T
    root = whole.sum(dim=1).clamp(min=1).rsqrt()
    return root[:, None] * whole * root


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_propagation_and_its_gradient_equal_those_of_a_dense_graph(layers):
    torch.testing.assert_close(normalized_graph(TRAIN).to_dense().double(), dense_graph(TRAIN))
    torch.manual_seed(0)
    encoder = LightGCN(TRAIN, 4, layers=layers)
    table = torch.cat([encoder.user_table, encoder.item_table]).detach().double().requires_grad_()
    power, total = table, table
    for _ in range(layers):
        power = dense_graph(TRAIN) @ power
        total = total + power
    expected = total / (layers + 1)
    rows = torch.cat(encoder.users_and_items())
    torch.testing.assert_close(rows.double(), expected)
    slopes = torch.randn(rows.shape)
    (rows * slopes).sum().backward()
    (expected * slopes.double()).sum().backward()
    gradient = torch.cat([encoder.user_table.grad, encoder.item_table.grad])
    torch.testing.assert_close(gradient.double(), table.grad)


@pytest.mark.parametrize(("layers", "exponent"), [(0, 0.0), (2, 0.5)])
def test_scores_are_cosines_of_propagated_embeddings_times_a_power_of_lengths(layers, exponent):
    model = module(propagate=layers, item_norm_exponent=exponent)
    unit = torch.nn.functional.normalize
    tables = [unit(table.double()) for table in model.encoder.parameters()]
    rows = torch.cat(tables)
    if layers:
        graph = dense_graph(TRAIN)
        rows = (rows + graph @ rows + graph @ (graph @ rows)) / 3
    users, items = rows.detach().split([len(table) for table in tables])
    lengths = items.norm(dim=1) if layers else model.encoder.item_table.norm(dim=1).detach()
    expected = unit(users) @ unit(items).T * lengths**exponent
    scores = model.scorer().scores(torch.arange(len(users)))
    torch.testing.assert_close(scores.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", [None, 2])
def test_rows_of_a_step_are_those_of_all_users_and_items_with_the_same_gradient(layers):
    pairs = np.random.default_rng(0).integers(0, [[30], [50]], (2, 80))
    train = Interactions.from_pairs(*pairs, user_ids=40, item_ids=60)
    torch.manual_seed(0)
    factors = layers is None
    encoder = MatrixFactorization(train, 4) if factors else LightGCN(train, 4, layers=layers)
    users = torch.tensor([2, 39, 2, 7])
    items, drawn = torch.tensor([3, 59, 3, 4, 0, 1, 2, 3]), torch.tensor([3, 2, 0])
    all_users, all_items = encoder.users_and_items()
    whole = (all_users[users], all_items[items], all_items[drawn])
    for ours, expected in zip(encoder.embed(users), (all_users[users], all_items), strict=True):
        torch.testing.assert_close(ours, expected)
    results = []
    for rows in (encoder.embed(users, items, drawn), whole):
        value = sum((part * part.detach().cos()).sum() for part in rows)
        tables = (encoder.user_table, encoder.item_table)
        results.append([*rows, *torch.autograd.grad(value, tables)])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_gradients_of_a_step_do_not_depend_on_how_threads_take_turns():
    encoder, users = LightGCN(TRAIN, 64), torch.arange(4096) % TRAIN.num_users
    slopes, threads = torch.randn(4096, 64), torch.get_num_threads()
    torch.set_num_threads(2)
    values = [(encoder.embed(users)[0] * slopes).sum() for _ in range(20)]
    first, *others = (torch.autograd.grad(value, encoder.user_table)[0] for value in values)
    torch.set_num_threads(threads)
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: module(learning_rate=0.0), "learning_rate must be above 0"),
        (lambda: module(candidates=0), "candidates must be at least 1"),
        (lambda: UserBatches(TRAIN.subset(slice(0)), 2, 0), "number of users with items must be"),
        (lambda: UserBatches(TRAIN, 2, 0, num_ranks=3), "device, got batches of 2 for 3 devices"),
        (lambda: LightGCN(TRAIN, layers=-1), "layers must be"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""One recommender: settings, resume, the choice of the epoch, baselines, lists."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from ranking_data import write_groups

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import losses_of, ranking_loss
from bayescl_lab.runs.ranking.evaluation import evaluate_run
from bayescl_lab.runs.ranking.run import RankingRun, best_epoch, stopping_epoch, train_ranking
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.ranking.settings import RankingSettings


@pytest.fixture
def settings(tmp_path) -> RankingSettings:
    """Four epochs of some steps on three groups of users and items."""
    file = write_groups(tmp_path)
    return RankingSettings(
        data=RankingData(str(file), user_column="customer", item_column="product"),
        dim=8,
        candidates=8,
        batch_size=6,
        lr=0.03,
        epochs=4,
        device="cpu",
    )


@pytest.mark.parametrize(
    ("encoder", "loss"),
    [*(("mf", loss) for loss in losses_of("ranking")), ("lightgcn", "bpr")],
)
def test_every_loss_finds_the_groups(settings, tmp_path, encoder, loss):
    settings = replace(settings, loss=ranking_loss(loss), encoder=encoder, epochs=12)
    result = train_ranking(settings, tmp_path / "run")
    assert result["metrics"]["recall@10"] > 0.9
    assert result["density"] == RankingRun(settings).interactions.density


def test_settings_come_back_from_their_plain_values_and_there_is_no_oracle(settings):
    with pytest.raises(ValueError, match=r"loss must be one of info_nce, .*, bpr, got 'oracle'"):
        ranking_loss("oracle")
    with pytest.raises(ValueError, match="encoder must be one of mf, lightgcn, got 'gcn'"):
        replace(settings, encoder="gcn")
    for loss in losses_of("ranking"):
        config = replace(settings, loss=ranking_loss(loss), score="inner").as_config()
        assert RankingSettings.from_config(json.loads(json.dumps(config))).as_config() == config


def test_tau_plus_is_the_density_of_training_unless_given(settings):
    def tau_plus(loss: str, **given: float) -> float:
        return RankingRun(replace(settings, loss=ranking_loss(loss, given))).model.loss.tau_plus

    density = RankingRun(settings).interactions.density
    assert tau_plus("bayesian") == pytest.approx(density)
    assert tau_plus("hard") == pytest.approx(density / 10)
    assert tau_plus("bayesian", tau_plus=0.2) == 0.2


def test_watching_takes_the_validation_part_out_of_training_and_judges_on_test(settings):
    plain = RankingRun(settings)
    watching = RankingRun(replace(settings, watch_every=1))
    held = watching.watched.evaluation
    assert (
        watching.interactions.num_interactions + held.num_interactions
        == plain.interactions.num_interactions
    )
    test = plain.parts.evaluation.matrix
    assert (watching.parts.evaluation.matrix != test).nnz == 0
    assert held.matrix.multiply(test).nnz == 0
    # Lists are judged against all that training knew, the validation part included.
    assert watching.parts.train.num_interactions == plain.interactions.num_interactions


def test_the_best_epoch_is_kept_and_judged(settings, tmp_path):
    settings = replace(settings, watch_every=1, evaluate_on="validation", epochs=6)
    result = train_ranking(settings, tmp_path / "run")
    rows = RunFolder(tmp_path / "run", "").read_metrics()
    best = max(rows, key=lambda row: row["ndcg@20"])
    assert result["best_epoch"] == best["epoch"]
    assert result["metrics"]["ndcg@20"] == pytest.approx(best["ndcg@20"])
    again = evaluate_run(tmp_path / "run")
    assert again["metrics"] == result["metrics"]
    assert again["epochs"] == best["epoch"]


def test_patience_ends_a_run_and_a_resume_does_not_train_on(settings, tmp_path):
    # With a learning rate of next to nothing no epoch is better than the first.
    settings = replace(settings, watch_every=1, patience=2, epochs=9, lr=1e-12)
    result = train_ranking(settings, tmp_path / "run")
    assert (result["epochs"], result["best_epoch"]) == (3, 1)
    (tmp_path / "run" / "result.json").unlink()
    again = train_ranking(settings, tmp_path / "run", resume=True)
    assert (again["epochs"], again["metrics"]) == (3, result["metrics"])


def test_rows_that_were_not_looked_at_choose_nothing():
    rows = [{"epoch": 1}, {"epoch": 2, "ndcg@20": 0.3}, {"epoch": 3}, {"epoch": 4, "ndcg@20": 0.3}]
    assert best_epoch(rows) == 2
    assert best_epoch(rows[:1]) is None
    assert stopping_epoch(rows, 1) == 4
    assert stopping_epoch(rows, 2) is None
    assert stopping_epoch(rows, 0) is None


def test_lists_hold_the_best_unseen_items_of_the_users_own_group(settings, tmp_path):
    train_ranking(replace(settings, epochs=30), tmp_path / "run")
    recommender = load_recommender(tmp_path / "run")
    known = recommender.parts.train
    row = known.user_ids.tolist().index("u-3")
    lists = recommender.recommend("u-3", k=2)
    assert lists.columns == ["user", "rank", "item", "score", "source"]
    assert lists.select("user", "rank").rows() == [("u-3", 1), ("u-3", 2)]
    assert lists["score"].is_sorted(descending=True)
    seen = set(known.item_ids[known.matrix[[row]].indices])
    assert not seen & set(lists["item"])
    unseen_of_group = {f"film {item}" for item in range(24) if item % 3 == 0} - seen
    assert set(lists["item"]) <= unseen_of_group
    everyone = recommender.recommend(all_users=True, k=2)
    own = everyone.filter(everyone["user"] == "u-3")
    assert own.drop("score").equals(lists.drop("score"))
    assert own["score"].to_list() == pytest.approx(lists["score"].to_list(), abs=1e-5)
    # Strangers get popular items, on request.
    with pytest.raises(ValueError, match=r"has no users u-99, who"):
        recommender.recommend(["u-0", "u-99", "who"])
    both = recommender.recommend(["u-3", "u-0"], k=2)
    assert both["user"].to_list() == ["u-3", "u-3", "u-0", "u-0"]
    counts = np.sort(np.bincount(recommender.trained_on.matrix.indices))[::-1]
    popular = recommender.recommend("u-99", k=5, popular=True)
    assert popular["source"].to_list() == ["popularity"] * 5
    assert popular["user"].to_list() == ["u-99"] * 5
    assert popular["score"].to_list() == counts[:5].tolist()

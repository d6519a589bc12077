"""A recommender in Cornac: trained, ranked and judged as by our own code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("cornac", reason="needs cornac")
pytest.importorskip("lightning.pytorch", reason="needs bayescl[ranking]")

import cornac
import lightning.pytorch as pl
from cases import each
from cornac.eval_methods import RatioSplit
from cornac.exception import ScoreException

import bayescl
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.integrations.cornac import ContrastiveRecommender
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.encoders import build_encoder
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import EmbeddingScorer

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def split() -> RatioSplit:
    """Users of three tastes, a quarter of whose choices are held out."""
    generator = np.random.default_rng(0)
    ratings = [
        (f"u{user}", f"i{item}", 1.0)
        for user in range(30)
        for item in 10 * (user % 3) + generator.choice(12, size=8, replace=False)
    ]
    return RatioSplit(data=ratings, test_size=0.25, rating_threshold=0.5, seed=1, verbose=False)


def made(**options: object) -> ContrastiveRecommender:
    settings = {"dim": 8, "epochs": 5, "batch_size": 6, "candidates": 10, "seed": 3}
    return ContrastiveRecommender(**{**settings, **options})


def interactions(of: cornac.data.Dataset, split: RatioSplit) -> Interactions:
    users, items, _ = of.uir_tuple
    sizes = {"user_ids": split.train_set.num_users, "item_ids": split.train_set.num_items}
    return Interactions.from_pairs(users, items, **sizes)


def scorer(model: ContrastiveRecommender) -> EmbeddingScorer:
    rows = (torch.from_numpy(each) for each in (model.user_vectors, model.item_vectors))
    return EmbeddingScorer(*rows, score="inner")


@each("encoder", ["mf", "lightgcn"])
def test_training_ends_with_the_weights_of_our_own_module(split, encoder: str) -> None:
    def loss() -> bayescl.ContrastiveLoss:
        return bayescl.BayesianContrastiveLoss(temperature=0.2, tau_plus=0.1)

    model = made(loss=loss(), encoder=encoder, candidates=99, propagate=1, item_norm_exponent=0.5)
    model.fit(split.train_set)

    train = interactions(split.train_set, split)
    settings = {"dim": 8, "layers": 2, "score": "cosine", "initial_scale": 0.1}
    with seeded(derived_seed(3, Purpose.WEIGHTS)):
        own = build_encoder(encoder, train, settings)
    batches, candidates = UserBatches(train, 6, 3), DrawnCandidates(train.num_items, 99)
    options = {"learning_rate": 0.01, "total_steps": 5 * len(batches), "seed": 3}
    ranking = {"propagate": 1, "item_norm_exponent": 0.5}
    module = RankingModule(encoder=own, loss=loss(), candidates=candidates, **options, **ranking)
    off = ("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger")
    off = (*off, "use_distributed_sampler")
    trainer = pl.Trainer(max_epochs=5, accelerator="cpu", **dict.fromkeys(off, False))
    trainer.fit(module, batches)
    expected = module.scorer()
    torch.testing.assert_close(torch.from_numpy(model.user_vectors), expected.users)
    torch.testing.assert_close(torch.from_numpy(model.item_vectors), expected.items)


def test_cornacs_lists_are_those_of_our_full_ranking(split) -> None:
    for candidates in (10, 99):
        model = made(candidates=candidates).fit(split.train_set)
        ours = full_ranking(scorer(model), k=model.num_items)
        for user in range(model.num_users):
            ranked, _ = model.rank(user)
            # Where scores tie, the two may order differently.
            scores = model.score(user)
            np.testing.assert_allclose(scores[ranked], scores[ours.items[user].numpy()], rtol=1e-6)


def test_cornacs_figures_are_ours(split) -> None:
    model = made(epochs=20)
    metrics = [cornac.metrics.Precision(k=5), cornac.metrics.Recall(k=5), cornac.metrics.NDCG(k=5)]
    models = [cornac.models.MostPop(), model]
    experiment = cornac.Experiment(eval_method=split, models=models, metrics=metrics)
    experiment.run()
    popular, trained = (result.metric_avg_results for result in experiment.result)
    train, test = interactions(split.train_set, split), interactions(split.test_set, split)
    figures = evaluate_ranking(scorer(model), RankingParts(train, test, "test"), ks=[5])["metrics"]
    for name in ("Precision@5", "Recall@5", "NDCG@5"):
        assert trained[name] == pytest.approx(figures[name.lower()], abs=1e-6)
    assert trained["Recall@5"] > popular["Recall@5"]


def test_clones_train_to_the_same_vectors_and_a_saved_model_is_not_trained_again(
    split, tmp_path: Path
) -> None:
    temperature = bayescl.LearnableTemperature(0.2)
    model = made(loss=bayescl.InfoNCELoss(temperature=temperature))
    before = model.clone()
    model.fit(split.train_set)
    assert temperature().item() == pytest.approx(0.2), "the loss that was passed in stays"
    for clone in (before, model.clone()):
        assert clone.user_vectors is None
        clone.fit(split.train_set)
        np.testing.assert_array_equal(clone.user_vectors, model.user_vectors)
    assert model.clone({"dim": 4}).dim == 4
    loaded = ContrastiveRecommender.load(model.save(str(tmp_path)))
    np.testing.assert_array_equal(loaded.score(2), model.score(2))
    with pytest.warns(UserWarning, match="already fitted"):
        loaded.fit(split.train_set)
    np.testing.assert_array_equal(loaded.score(2), model.score(2))


def test_one_score_is_that_of_all_scores_and_strangers_have_none(split) -> None:
    with pytest.raises(ScoreException, match="fit"):
        made().score(0)
    model = made().fit(split.train_set)
    assert model.score(1, 4) == pytest.approx(model.score(1)[4])
    assert model.score(1).shape == (model.num_items,)
    inner = made(loss=bayescl.InfoNCELoss(normalize=False)).fit(split.train_set)
    assert np.abs(inner.score(1)).max() != pytest.approx(np.abs(model.score(1)).max())
    for place, message in (((999,), "user 999"), ((0, 999), "item 999")):
        with pytest.raises(ScoreException, match=message):
            model.score(*place)


def test_settings_out_of_range_are_refused() -> None:
    wrong = {"encoder": "bert", "candidates": "none", "dim": 0, "learning_rate": 0.0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            made(**{name: value})

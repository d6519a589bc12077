"""The quality of lists for users who are not in training, by how their vector is computed.

    BAYESCL_DATA=data python benchmarks/fold_in.py --seeds 2

Every sixth user of MovieLens-100k is left out of training. The user's training items then give a
vector, and lists are scored by NDCG@20 on the user's test items. The vectors compared are the map
of ``bayescl_lab.ranking.fold_in``, the mean of the items, least squares on the user's own items
(the best of four penalties, chosen on these users, which favours it), a vector trained by the loss
with fixed items, and the own vector after training on all users. Writes a dated JSON file to
``benchmarks/results``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from recsys import fit, options, publish
from torch import Tensor
from torch.nn import functional as F

from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.fold_in import NewcomerScorer
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.metrics import ranking_metrics
from bayescl_lab.ranking.scorers import EmbeddingScorer
from bayescl_lab.runs.losses import RankingLoss
from bayescl_lab.runs.ranking.record import RankingRecord
from bayescl_lab.runs.ranking.run import RankingRun
from bayescl_lab.runs.ranking.settings import RankingSettings

DATA = RankingData("ml-100k")
EVERY = 6
EPOCHS = 8
PENALTIES = (0.1, 1.0, 10.0, 100.0)
MODELS = {
    "mf": {"encoder": "mf", "lr": 0.01},
    "lightgcn": {"encoder": "lightgcn", "lr": 0.01, "item_norm_exponent": 0.25},
    "mf_inner": {"encoder": "mf", "lr": 0.005, "score": "inner"},
}


def trained(settings: RankingSettings, train: Interactions, test: Interactions) -> EmbeddingScorer:
    """The embeddings that training on some interactions leaves."""
    run = RankingRun(settings, record=RankingRecord.of_parts(train=train, test=test))
    fit(run.model, run.batches, EPOCHS)
    return run.model.scorer()


def by_the_loss(items: Tensor, has: Tensor, settings: RankingSettings) -> Tensor:
    """Vectors that make the loss small, by a hundred steps of Adam from the mean."""
    is_cosine = settings.score == "cosine"
    temperature = settings.loss.resolved(score=settings.score)["temperature"]
    fixed = F.normalize(items, dim=1) if is_cosine else items
    vectors = (has @ items / has.sum(dim=1, keepdim=True)).requires_grad_()
    optimizer = torch.optim.Adam([vectors], lr=0.05)
    for _ in range(100):
        logits = (F.normalize(vectors, dim=1) if is_cosine else vectors) @ fixed.T / temperature
        others = logits.masked_fill(has > 0, -1e9).logsumexp(dim=1, keepdim=True)
        losses = (F.softplus(others - logits) * has).sum(dim=1) / has.sum(dim=1)
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
    return vectors.detach()


def measure(model: str, seed: int) -> dict[str, float]:
    """NDCG@20 of users left out, by method."""
    parts = DATA.load("test")
    settings = RankingSettings(
        loss=RankingLoss("info_nce"),
        data=DATA,
        candidates="shared",
        count=512,
        batch_size=2048,
        epochs=EPOCHS,
        seed=seed,
        device="cpu",
        **MODELS[model],
    )
    users, _ = parts.train.pairs()
    known = parts.train.subset(users % EVERY > 0)
    rows = torch.arange(0, parts.train.num_users, EVERY)
    has = torch.from_numpy(parts.train.matrix.toarray())[rows]
    scorer = trained(settings, known, parts.evaluation)
    items = scorer.items

    def by_scores(scores: Callable[[Tensor], Tensor]) -> float:
        shape = {"num_users": parts.train.num_users, "num_items": len(items)}
        scorer = SimpleNamespace(scores=scores, **shape)
        top = full_ranking(scorer, 20, seen=parts.train, users=rows)
        return ranking_metrics(top, parts.evaluation, [20])["ndcg@20"]

    def by_vectors(vectors: Tensor) -> float:
        return by_scores(lambda users: vectors[users // EVERY] @ items.T)

    def least_squares(penalty: float) -> Tensor:
        own = [items[row > 0] for row in has]
        eye = penalty * torch.eye(items.shape[1])
        return torch.stack([torch.linalg.solve(x.T @ x + eye, x.sum(dim=0)) for x in own])

    newcomers = NewcomerScorer(scorer, known)
    mapped = torch.stack([newcomers.embedding(row.nonzero()[:, 0]) for row in has])
    everybody = trained(settings, parts.train, parts.evaluation)
    return {
        "the map from the mean": by_vectors(mapped),
        "the mean itself": by_vectors(has @ items / has.sum(dim=1, keepdim=True)),
        "least squares on the user's items": max(
            by_vectors(least_squares(penalty)) for penalty in PENALTIES
        ),
        "trained by the loss, items fixed": by_vectors(by_the_loss(items, has, settings)),
        "had training known the user": by_scores(everybody.scores),
    }


def main() -> None:
    """Measure, print and write."""
    chosen = options(__doc__, seeds=2)
    torch.set_num_threads(1)
    rows: dict[str, dict[str, object]] = {}
    for model in MODELS:
        figures = [measure(model, seed) for seed in range(chosen.seeds)]
        for method in figures[0]:
            row = rows.setdefault(method, {"method": method})
            row[model] = mean_and_spread([of_seed[method] for of_seed in figures])
    publish("fold-in", list(rows.values()), seeds=chosen.seeds, metric="ndcg@20", epochs=EPOCHS)


if __name__ == "__main__":
    main()

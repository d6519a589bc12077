"""What is evaluated is what is served: new customers, untrained items, warm starts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.full_ranking import TopItems
from bayescl_lab.ranking.metrics import METRICS, ranking_metrics
from bayescl_lab.runs.exporting import export_run, run_embeddings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.ranking_record import seen_pairs
from bayescl_lab.runs.ranking.ranking_run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.ranking.serving import Recommender
from bayescl_lab.runs.result import Result


def write_shop(path: Path, days: int = 10, users: int = 40, items: int = 30) -> Path:
    """Purchases by day: popular items, and every day some first-time customers."""
    dice = np.random.default_rng(0)
    lines = ["user,item,day"]
    for day in range(days):
        for _ in range(40):
            user = dice.integers(users * (day + 3) // (days + 3))
            item = int((items if day > days - 3 else items - 3) * dice.random() ** 2)
            lines.append(f"u{user},i{item},2024-05-{day + 10}")
    path.write_text("\n".join(lines))
    return path


def settings(file: Path, **options) -> RankingSettings:
    data = RankingData(str(file), timestamp_column="day", **options.pop("reading", {}))
    return RankingSettings(data=data, dim=4, epochs=2, device="cpu", **options)


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    file = write_shop(folder / "shop.csv")
    train_ranking(settings(file, reading={"split": "time"}), folder / "run")
    return folder


def test_the_figures_are_those_of_the_lists_that_are_served(shop):
    run = Recommender(shop / "run")
    result = Result.read_file(shop / "run" / "result.json")
    known, wanted = run.trained_on, run.record.parts("test").evaluation
    column = {item: place for place, item in enumerate(known.item_ids.tolist())}
    row = {user: place for place, user in enumerate(known.user_ids.tolist())}
    is_new = np.diff(known.matrix.indptr) == 0
    judged = np.flatnonzero(np.diff(wanted.matrix.indptr))
    served = run.recommend(all_users=True, k=99, allow_known=True)
    lists = {}
    for user, items in served.group_by("user").agg("item").rows():
        has = set(known.matrix[[row[user]]].indices.tolist())
        kept = [column[item] for item in items if column[item] not in has][:20]
        lists[row[user]] = kept + [-1] * (20 - len(kept))
    for key, users in (
        ("judged", judged),
        ("known_users", judged[~is_new[judged]]),
        ("unknown_users", judged[is_new[judged]]),
    ):
        group = result.groups.get(key, result.row)
        top = torch.tensor([lists[user] for user in users.tolist()])
        metrics = ranking_metrics(TopItems(torch.from_numpy(users), top, top.double()), wanted)
        assert len(METRICS) * 3 == len(metrics)
        assert result.sizes[key] == len(users) > 0
        scores = {name: score.mean for name, score in group.scores.items()}
        assert scores == pytest.approx(metrics)
    sources = dict(served.select("user", "source").rows())
    assert {user for user, source in sources.items() if source == "popularity"} == {
        user for user, place in row.items() if is_new[place]
    }
    assert RankingRun.evaluate_in(shop / "run").groups == result.groups


def test_what_training_did_not_see_is_left_out_everywhere(shop, tmp_path):
    run = Recommender(shop / "run")
    trained = {of: run.trained_rows(of) for of in ("users", "items")}
    assert not any(rows.all() for rows in trained.values())
    ids = {"users": run.trained_on.user_ids, "items": run.trained_on.item_ids}
    export_run(shop / "run", tmp_path / "plain")
    exported = np.load(tmp_path / "plain" / "recommender.npz")
    for of, rows in trained.items():
        kept = ids[of][rows].tolist()
        assert run_embeddings(shop / "run", of)["id"].to_list() == kept
        assert exported[f"{of.removesuffix('s')}_ids"].tolist() == kept
        assert len(exported[of]) == len(kept)
    assert exported["known_items"].max() < len(exported["items"])
    untrained = set(ids["items"][~trained["items"]].tolist())
    for lists in (
        run.recommend(all_users=True, k=99),
        run.recommend("u1", k=99, allow_known=True),
        run.similar_items("i1", 99),
    ):
        assert not untrained & set(lists["item"])
    with pytest.raises(ValueError, match="has no interactions in training, so no embedding"):
        run.similar_items(untrained.pop())


def test_lists_of_everybody_are_made_only_when_asked_for(shop):
    run = Recommender(shop / "run")
    for arguments in ({}, {"user_id": None}, {"user_id": "u1", "all_users": True}):
        with pytest.raises(ValueError, match="pass either user_id or all_users=True"):
            run.recommend(**arguments)
    assert run.recommend([], k=2).height == 0
    assert run.recommend(all_users=True, k=1)["user"].n_unique() > 30


def test_text_is_one_id_and_unknown_ids_are_named(shop):
    run = Recommender(shop / "run")
    lists = run.recommend("u1", k=5)
    assert run.recommend(np.str_("u1"), k=5).equals(lists)
    best = lists["item"][0]
    assert best not in run.recommend("u1", k=5, exclude=best)["item"]
    with pytest.raises(ValueError, match=r"has no item 1234$"):
        run.recommend("u1", exclude="1234")
    with pytest.raises(ValueError, match="has no users x, y"):
        run.recommend(["u1", "x", "y", "x"])


def test_a_start_from_a_run_that_saw_the_evaluation_part_is_refused(shop, tmp_path):
    file = shop / "shop.csv"
    train_ranking(settings(file, reading={"split": "none"}), tmp_path / "all")
    timed = settings(file, reading={"split": "time"})
    for later in (timed, replace(timed, evaluate_on="validation")):
        with pytest.raises(ValueError, match=r"init: the run in .*all was trained on \d+ of the"):
            train_ranking(replace(later, init=str(tmp_path / "all")), tmp_path / "x")
        assert not (tmp_path / "x").exists()
    # The same through a run that was itself started from that one, on data without these pairs.
    old = tmp_path / "old.csv"
    old.write_text("\n".join(file.read_text().split("\n")[:200]))
    everything = settings(old, reading={"split": "none"}, init=str(tmp_path / "all"))
    train_ranking(everything, tmp_path / "second")
    with pytest.raises(ValueError, match="was trained on"):
        train_ranking(replace(timed, init=str(tmp_path / "second")), tmp_path / "x")
    # A run that kept the same part for evaluation may be continued.
    train_ranking(replace(timed, init=str(shop / "run")), tmp_path / "y")
    evaluation = RankingRun.reopen(tmp_path / "y")[1].parts.evaluation
    assert seen_pairs(RunFolder.find(tmp_path / "second"), evaluation).all()
    assert not seen_pairs(RunFolder.find(tmp_path / "y"), evaluation).any()

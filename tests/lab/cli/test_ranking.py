"""The commands on interactions as a user meets them."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from ranking_data import OPTIONS

from bayescl_lab.runs.result import Result


def test_a_table_of_ones_own_is_trained_on_judged_and_recommended_from(bayescl, bought):
    outcome = bayescl(f"train ranking {OPTIONS} --out run")
    rows = ("InfoNCE", "popularity", "EASE")
    for text in ("R@20", "NDCG@20", "of 48 users", "seconds per epoch", *rows):
        assert text in outcome.out
    found = {str(path.relative_to("run")) for path in Path("run").rglob("*") if path.is_file()}
    remembered = {"data.json", "interactions.npz"}
    trained = {"config.yaml", "metrics.csv", "result.json"}
    trained |= {"checkpoints/last.ckpt"}
    assert found == trained | remembered

    outcome = bayescl("evaluate run")
    assert "after 20 of 20 epochs, test split" in outcome.out
    assert all(text in outcome.out for text in rows)
    results = [Result.read_file(Path("run", f"{name}.json")) for name in ("result", "evaluation")]
    assert results[0].every.keys() == {"info_nce", "popularity", "ease"}
    assert [row.scores for row in results[0].every.values()] == [
        row.scores for row in results[1].every.values()
    ]

    outcome = bayescl("recommend run --user u-4 -k 3")
    assert outcome.out.count("film ") == 3

    assert bayescl("recommend run --all -k 2 --out lists.csv").status == 0
    lists = pl.read_csv("lists.csv")
    assert lists.columns == ["user", "rank", "item", "score", "source"]
    assert lists["user"].n_unique() == 48
    assert len(lists) == 96
    assert bayescl("recommend run --user u-4 -k 3 --out one.parquet").status == 0
    assert pl.read_parquet("one.parquet")["user"].to_list() == ["u-4"] * 3


def test_options_of_a_table_are_followed(bayescl, bought, printed_config):
    options = f"{OPTIONS} --rating-column stars --min-rating 4 --split per-user --seed 3"
    outcome = bayescl(f"train ranking {options} --epochs 1 --loss info_nce --out run")
    assert "ratings below 4 left out" in outcome.out
    settings = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (settings["min_rating"], settings["split"]) == (4, "per-user")
    assert printed_config(f"train ranking {options} --epochs 1 --loss info_nce") == settings


def test_columns_that_nobody_named_are_guessed_and_said(bayescl, bought):
    quick = "--dim 4 --epochs 1 --device cpu --min-rating 3"
    outcome = bayescl(f"train ranking --data bought.csv {quick} --user-column customer --out run")
    line = "columns guessed: items from 'product', ratings from 'stars' "
    assert f"{line}(--item-column, --rating-column to change)" in outcome.out
    guessed = json.loads(Path("run/data.json").read_text())["columns"]
    assert guessed == {"item": "product", "rating": "stars"}
    assert "columns guessed" not in bayescl("train ranking --out run --resume").out


def test_embeddings_are_written_with_and_without_ids(bayescl, recommender):
    assert bayescl("embed run --out items.npy").status == 0
    items = np.load("items.npy")
    assert items.shape == (24, 8)
    assert np.linalg.norm(items, axis=1) == pytest.approx(1, abs=1e-5)
    assert bayescl("embed run --of users --out users.parquet").status == 0
    users = pl.read_parquet("users.parquet")
    assert users.columns == ["id", "embedding"]
    assert users["id"].to_list()[0] == "u-0"
    # What embeddings say is what lists say.
    assert bayescl("embed run --of items --out items.parquet").status == 0
    ids = pl.read_parquet("items.parquet")["id"].to_list()
    assert bayescl("recommend run --user u-0 -k 1 --out best.csv").status == 0
    best = pl.read_csv("best.csv").row(0, named=True)
    own = users["embedding"].to_numpy()[0] @ items[ids.index(best["item"])]
    assert best["score"] == pytest.approx(own, abs=1e-5)


def test_an_unknown_user_is_refused_without_control_codes(bayescl, recommender):
    complaint = bayescl("recommend run --user somebody").complaint
    assert "bought.csv has no user somebody" in complaint
    assert "\x1b" not in bayescl("recommend run --user [/x]\x1b[31m").complaint

"""Published interactions unpacked, and real copies."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from web import zipped

from bayescl_lab._downloads import SOURCES, DataSource, fetch_source
from bayescl_lab.ranking.datasets import load_interactions

RATINGS = "".join(f"{user}\t{item}\t3\t1\n" for user in range(4) for item in range(5))


@pytest.fixture
def publish(monkeypatch, tmp_path):
    """Put an archive where a download would put it, and return its source."""
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path / "data"))

    def put(files: dict[str, str]) -> DataSource:
        content = zipped({name: text.encode() for name, text in files.items()})
        archive = tmp_path / "data" / "ml-100k" / "ml-100k.zip"
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(content)
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        source = replace(
            SOURCES["ml-100k"], url="http://127.0.0.1:9/ml-100k.zip", checksum=checksum
        )
        monkeypatch.setitem(SOURCES, "ml-100k", source)
        return source

    return put


def test_a_fetched_archive_lies_where_its_name_is_looked_for_and_replaces_nothing(
    publish, tmp_path
):
    source = publish({"ml-100k/u.data": RATINGS, "ml-100k/u.item": "0|Zero|\n"})
    mine = tmp_path / "data" / "ml-100k" / "u.item"
    mine.write_text("0|Mine|\n")
    folder = fetch_source(source) / "ml-100k"
    assert mine.read_text() == "0|Mine|\n"
    assert {path.name for path in folder.iterdir()} >= {"u.data", "u.item"}
    assert load_interactions("ml-100k").train.matrix.shape == (4, 5)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("ml-1m", "`bayescl data fetch ml-1m` downloads it, or put ratings.dat"),
        ("yahoo-r3", "ask Yahoo Webscope for R3"),
        ("gowalla", "put train.txt and test.txt from data/gowalla of https://github.com/"),
    ],
)
def test_a_known_data_set_that_is_absent_says_how_to_get_it(monkeypatch, tmp_path, name, advice):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=f"{name} is not in {tmp_path / name}: {advice}"):
        load_interactions(name)
    source = SOURCES[name]
    if not source.url:
        with pytest.raises(ValueError, match=f"{name} cannot be downloaded: {advice}"):
            fetch_source(source)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("ml-100k", (943, 1682, 100_000)),
        ("ml-1m", (6040, 3706, 802_553 + 197_656)),
        ("gowalla", (29_858, 40_981, 810_128 + 217_242)),
        ("yelp2018", (31_668, 38_048, 1_237_259 + 324_147)),
    ],
)
def test_real_copies_are_as_published(monkeypatch, name, sizes):
    folder = Path(os.environ.get("BAYESCL_DATA") or Path(__file__).parents[4] / "shared" / "data")
    if not (folder / name).is_dir():
        pytest.skip(f"there is no {name} in {folder}")
    monkeypatch.setenv("BAYESCL_DATA", str(folder))
    train = load_interactions(name, split="none").train
    assert (train.num_users, train.num_items, train.num_interactions) == sizes

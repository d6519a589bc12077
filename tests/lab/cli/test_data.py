"""The commands on data sets as a user meets them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import Server, serving, zipped

from bayescl_lab._downloads import SOURCES, DataSource

RATINGS = "".join(f"{user}\t{item}\t3\t1\n" for user in range(4) for item in range(5))


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAYESCL_DATA", raising=False)


@pytest.fixture
def small_movielens(monkeypatch) -> Iterator[Server]:
    """A tiny ml-100k on a server of our own, in the place of the real one."""
    data = zipped({"ml-100k/u.data": RATINGS.encode()})
    with serving(data) as server:
        checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
        given = (server.url, len(data), checksum, "cite", "home", "", "u.data")
        source = DataSource("ml-100k", "interactions", "MovieLens-100k", *given)
        monkeypatch.setitem(SOURCES, "ml-100k", source)
        yield server


def there(out: str) -> list[str]:
    """Names in the printed list that are marked as there."""
    return [line.split()[1] for line in out.splitlines() if " yes " in line and "│" in line]


def test_list_shows_every_data_set_with_size_and_terms_and_what_is_there(bayescl):
    shown = bayescl("data list").out
    for text in ("digits", "with scikit-learn", "4.9 MB", "yahoo-r3", "by hand", "cite", "cifar10"):
        assert text in shown
    assert there(shown) == []
    folder = Path("data/gowalla")
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("0 1\n")
    assert there(bayescl("data list").out) == []
    (folder / "test.txt").write_text("0 2\n")
    images = Path("data/cifar10")
    images.mkdir()
    (images / "cifar.part").touch()
    assert there(bayescl("data list").out) == ["gowalla"]
    (images / "cifar.tar.gz").touch()
    assert there(bayescl("data list").out) == ["cifar10", "gowalla"]


def test_fetch_downloads_once_and_list_shows_it(bayescl, small_movielens):
    outcome = bayescl("data fetch ml-100k")
    assert "terms: cite" in outcome.out
    assert Path("data/ml-100k/ml-100k/u.data").read_text() == RATINGS
    assert bayescl("data fetch ml-100k").status == 0
    assert small_movielens.requests == 1
    assert there(bayescl("data list").out) == ["ml-100k"]

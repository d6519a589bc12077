import errno
import hashlib
import io
import tarfile
from collections.abc import Iterator

import numpy as np
import pooch
import pytest
from web import Server, serving, zipped

from bayescl_lab._downloads import DataSource, fetch_source

RAW = np.random.default_rng(0).bytes(300_000)
CONTENT = zipped({"things/data.bin": RAW})
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as running:
        yield running


@pytest.fixture(autouse=True)
def _data_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))


def things(server: Server, **changes: object) -> DataSource:
    given = {"url": server.url, "size": len(CONTENT), "checksum": f"md5:{MD5}", **changes}
    return DataSource("things", "images", "Things", terms="none", homepage="", **given)


def test_a_damaged_archive_that_is_there_is_fetched_again(server, tmp_path):
    archive = tmp_path / "things" / "data.zip"
    archive.parent.mkdir()
    archive.write_bytes(CONTENT[:-1])
    fetch_source(things(server))
    assert archive.read_bytes() == CONTENT
    assert (tmp_path / "things/things/data.bin").read_bytes() == RAW


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": b"x" + CONTENT[1:]}, "does not match the known hash"),
        ({"content": CONTENT + b"more"}, "does not match the known hash"),
        ({"breaks_after": 1000, "tells_length": False}, "does not match the known hash"),
        ({"breaks_after": 1000}, r"^cannot download .*/data.zip: .*1000 bytes read, "),
        ({"breaks_after": 0}, r"^cannot download .*/data.zip: .*0 bytes read, "),
    ],
)
def test_what_is_not_the_published_file_is_refused_and_leaves_nothing(
    server, tmp_path, change, message
):
    vars(server).update(change)
    with pytest.raises(ValueError, match=message) as caught:
        fetch_source(things(server))
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "things").iterdir()) == []
    vars(server).update(content=CONTENT, tells_length=True, breaks_after=None)
    fetch_source(things(server))
    assert (tmp_path / "things/things/data.bin").read_bytes() == RAW


def test_a_missing_page_and_a_refused_connection_are_one_line(server, tmp_path):
    missing = server.url.replace("data.zip", "missing")
    with pytest.raises(ValueError, match=r"^cannot download .*/missing: 404 Not Found$"):
        fetch_source(things(server, url=missing))
    with pytest.raises(ValueError, match=r"^cannot download .*: connection refused$"):
        fetch_source(things(server, url="http://127.0.0.1:1/data.zip"))


def test_a_disk_that_refuses_is_named(server, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pooch.HTTPDownloader, "__call__", full)
        with pytest.raises(ValueError, match=r"cannot write to .*things: No space left"):
            fetch_source(things(server))
    (tmp_path / "file").touch()
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="cannot write to"):
        fetch_source(things(server))


def test_a_source_is_fetched_once_into_its_own_folder_and_progress_ends_at_its_size(
    server, tmp_path
):
    seen: list[int] = []
    for _ in range(2):
        folder = fetch_source(things(server), progress=seen.append)
        assert folder == tmp_path / "things"
        assert (folder / "things/data.bin").read_bytes() == RAW
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)
    assert server.requests == 1


def test_tar_archives_are_unpacked_too(server, tmp_path):
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w:gz") as archive:
        entry = tarfile.TarInfo("things/data.bin")
        entry.size = len(RAW)
        archive.addfile(entry, io.BytesIO(RAW))
    content = packed.getvalue()
    server.content = content
    digest = hashlib.sha256(content).hexdigest()
    source = things(server, url=server.url[:-3] + "tar.gz", checksum=f"sha256:{digest}")
    assert (fetch_source(source) / "things/data.bin").read_bytes() == RAW


def test_what_cannot_be_fetched_says_why():
    source = DataSource("closed", "images", "Closed", "", 0, "", "none", "", "ask its owner")
    with pytest.raises(ValueError, match="closed cannot be downloaded: ask its owner"):
        fetch_source(source)

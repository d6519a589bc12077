import errno
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pooch
import pytest
from web import Server, serving

from bayescl_lab._downloads import (
    DataSource,
    RemoteFile,
    extract_archive,
    fetch_file,
    fetch_source,
    verify_file,
)

CONTENT = np.random.default_rng(0).bytes(300_000)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as running:
        yield running


def remote(server: Server, **changes: object) -> RemoteFile:
    fields = {
        "url": server.url,
        "filename": "data.bin",
        "size": len(CONTENT),
        "checksum": f"md5:{MD5}",
    }
    return RemoteFile(**{**fields, **changes})


def test_a_damaged_file_that_is_there_is_refused_and_left_alone(server, tmp_path):
    mine = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    (tmp_path / "data.bin").write_bytes(mine)
    with pytest.raises(ValueError, match=f"is damaged: md5 must be {MD5}, got [0-9a-f]{{32}}$"):
        fetch_file(remote(server), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == mine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": b"x" + CONTENT[1:]}, f"md5 must be {MD5}, got [0-9a-f]{{32}}$"),
        ({"content": CONTENT + b"more"}, f"md5 must be {MD5}"),
        ({"breaks_after": 1000, "tells_length": False}, f"md5 must be {MD5}"),
        ({"breaks_after": 1000}, r"^cannot download .*/data.bin: .*1000 bytes read, 299000 more"),
        ({"breaks_after": 0}, r"^cannot download .*/data.bin: .*0 bytes read, 300000 more"),
    ],
)
def test_what_is_not_the_published_file_is_refused_and_leaves_nothing(
    server, tmp_path, change, message
):
    (tmp_path / "data.bin").unlink(missing_ok=True)
    (tmp_path / "data.bin.part").write_bytes(b"what an interrupted call left")
    vars(server).update(change)
    with pytest.raises(ValueError, match=message) as caught:
        fetch_file(remote(server), tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    vars(server).update(content=CONTENT, tells_length=True, breaks_after=None)
    assert fetch_file(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_missing_page_and_a_refused_connection_are_one_line(server, tmp_path):
    missing = server.url.replace("data.bin", "missing")
    with pytest.raises(ValueError, match=r"^cannot download .*/missing: 404 Not Found$"):
        fetch_file(remote(server, url=missing), tmp_path)
    with pytest.raises(ValueError, match=r"^cannot download .*: connection refused$"):
        fetch_file(remote(server, url="http://127.0.0.1:1/data.bin"), tmp_path)


def test_a_disk_that_refuses_is_named(server, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pooch.HTTPDownloader, "__call__", full)
        with pytest.raises(ValueError, match=r"cannot write to .*data.bin.part: No space left"):
            fetch_file(remote(server), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot write to"):
        fetch_file(remote(server), tmp_path / "file")
    assert fetch_file(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_source_is_fetched_once_into_its_own_folder_and_progress_ends_at_its_size(
    server, tmp_path, monkeypatch
):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    source = DataSource("things", "images", "Things", (remote(server),), "none", "http://home")
    seen: list[int] = []
    for _ in range(2):
        path = fetch_source(source, progress=seen.append)
        assert path == tmp_path / "things" / "data.bin"
        assert path.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == source.size
    assert server.requests == 1


def test_what_cannot_be_fetched_or_verified_says_why(tmp_path):
    source = DataSource("closed", "images", "Closed", (), "none", "", "ask its owner")
    with pytest.raises(ValueError, match="closed cannot be downloaded: ask its owner"):
        fetch_source(source, tmp_path)
    with pytest.raises(ValueError, match=r"cannot read .*nowhere: No such file"):
        verify_file(tmp_path / "nowhere", f"md5:{MD5}")


def make_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            member.size = len(CONTENT) if member.isfile() else 0
            archive.addfile(member, io.BytesIO(CONTENT) if member.isfile() else None)
    return path


def make_zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, CONTENT)
    return path


def tar_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def test_an_archive_is_unpacked_into_an_empty_folder(tmp_path):
    (tmp_path / "one").mkdir()
    packed = make_tar(tmp_path / "x", tar_member("a/b.bin")), make_zip(tmp_path / "y", "a/b.bin")
    for path, name in zip(packed, ("one", "two"), strict=True):
        assert (extract_archive(path, tmp_path / name) / "a/b.bin").read_bytes() == CONTENT
    with pytest.raises(ValueError, match="one exists already"):
        extract_archive(packed[0], tmp_path / "one")
    with pytest.raises(ValueError, match=r"cannot unpack \S+: No such file"):
        extract_archive(tmp_path / "nowhere", tmp_path / "other")


@pytest.mark.parametrize(
    "odd",
    [
        tar_member("../x"),
        tar_member("odd", tarfile.SYMTYPE, "/etc/passwd"),
        tar_member("odd", tarfile.LNKTYPE, "../../fine"),
        tar_member("odd", tarfile.FIFOTYPE),
    ],
)
def test_what_leads_out_of_a_tar_archive_is_refused(tmp_path, odd):
    path = make_tar(tmp_path / "x", tar_member("fine"), odd)
    with pytest.raises(ValueError, match=r"^cannot unpack \S+: it is unsafe \([^\n]*"):
        extract_archive(path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["/x", "../x", "a/../../x", "..\\x", "C:\\x"])
def test_a_zip_archive_is_unpacked_inside_of_the_folder(tmp_path, name):
    path = make_zip(tmp_path / "in", "fine", name)
    into = extract_archive(path, tmp_path / "out")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert all(file == path or into in file.parents for file in files)

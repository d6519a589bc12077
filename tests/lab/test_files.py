"""Files are there as a whole or not at all, whatever stops their writer."""

import os
import stat

import pytest

from bayescl_lab import _cores
from bayescl_lab._cores import usable_cores, usable_memory
from bayescl_lab._files import staged_folder, write_atomically


def test_text_and_bytes_arrive_as_they_are_and_everybody_may_read_them(tmp_path):
    file = tmp_path / "result.json"
    for content, expected in (("é\r\n\n", b"\xc3\xa9\r\n\n"), (b"\x00\xff", b"\x00\xff")):
        write_atomically(file, content)
        assert file.read_bytes() == expected
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_a_writer_that_stops_halfway_leaves_what_was_there_before(tmp_path, stop, monkeypatch):
    file = tmp_path / "weights.pt"
    file.write_bytes(b"before")

    def fsync(_: int) -> None:
        raise stop

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(stop):
        write_atomically(file, b"half")
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_reaches_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    file = tmp_path / "result.json"
    synced = []

    def fsync(descriptor: int) -> None:
        assert not file.exists()
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(file, b"12345")
    assert synced == [5]


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "above" / "run"

    def interrupted() -> None:
        with staged_folder(folder) as staged:
            (staged / "config.yaml").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(folder.parent.iterdir()) == []
    folder.mkdir()
    with staged_folder(folder) as staged:
        (staged / "config.yaml").write_text("whole")
    assert (folder / "config.yaml").read_text() == "whole"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    with pytest.raises(OSError, match="not empty"), staged_folder(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_a_container_limits_memory_and_a_limit_in_words_is_none(tmp_path, monkeypatch):
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(_cores, "_LIMITS", ())
    machine = usable_memory()
    assert machine > 2**20
    limits = [tmp_path / name for name in ("none", "max", "some")]
    limits[1].write_text("max\n")
    limits[2].write_text("1048576\n")
    monkeypatch.setattr(_cores, "_LIMITS", tuple(map(str, limits[:2])))
    assert usable_memory() == machine
    monkeypatch.setattr(_cores, "_LIMITS", tuple(map(str, limits)))
    assert usable_memory() == 2**20

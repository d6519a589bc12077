"""Published data sets: downloads with checksums, and safe unpacking."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from bayescl_lab._files import staged_folder

DATA_VARIABLE = "BAYESCL_DATA"
"""The environment variable that names the folder of data sets."""

Progress = Callable[[int], object]
"""Function called with the bytes downloaded so far."""

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds without data


@dataclass(frozen=True)
class RemoteFile:
    """Published file with its checksum and its name in the data folder.

    The checksum is ``md5:`` or ``sha256:`` and the hexadecimal digest given by the publisher.
    """

    url: str
    filename: str
    size: int
    checksum: str


@dataclass(frozen=True)
class DataSource:
    """A published data set: source, size and terms of use.

    Attributes:
        name: Name in commands.
        kind: "images" or "interactions".
        title: Name for display.
        files: The archive to download. Empty if users must get the data themselves.
        terms: Conditions of use in one line.
        homepage: Web page of the data set.
        instructions: How to get a copy if there is no download.
    """

    name: str
    kind: str
    title: str
    files: tuple[RemoteFile, ...]
    terms: str
    homepage: str
    instructions: str = ""

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)


def data_folder() -> Path:
    """Return the folder of data sets: ``$BAYESCL_DATA``, or ``data`` if it is not set."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")


def fetch_source(
    source: DataSource, folder: Path | None = None, *, progress: Progress = lambda _: None
) -> Path:
    """Fetch the archive of a data set into ``<folder>/<name of the data set>``, and verify it.

    Args:
        source: Data set to fetch.
        folder: Folder of data sets. Default: :func:`data_folder`.
        progress: Function called with the bytes downloaded so far.

    Raises:
        ValueError: if there is no download, or as in :func:`fetch_file`.
    """
    if not source.files:
        raise ValueError(f"{source.name} cannot be downloaded: {source.instructions}")
    (file,) = source.files
    return fetch_file(file, (folder or data_folder()) / source.name, progress)


def fetch_file(file: RemoteFile, folder: Path, progress: Progress = lambda _: None) -> Path:
    """Download a file, or use an existing one; verify it and return its path.

    Bytes are written to ``<filename>.part``, which is renamed once its checksum is verified.

    Raises:
        ValueError: if the file cannot be fetched or written, or has another checksum. A failed
            download is removed. An existing damaged file is kept.
    """
    target = folder / file.filename
    if target.exists():
        verify_file(target, file.checksum)
        return target
    import pooch  # which imports requests: too slow for commands that do not download
    from requests import RequestException

    part = target.with_name(target.name + ".part")
    done = 0

    def update(count: int) -> None:
        nonlocal done
        done = min(done + count, file.size)  # at the end, pooch counts the total once more
        progress(done)

    meter = SimpleNamespace(total=0, update=update, reset=lambda: None, close=lambda: None)
    headers = {"User-Agent": "bayescl", "Accept-Encoding": "identity"}
    fetch = pooch.HTTPDownloader(meter, _BLOCK, timeout=_TIMEOUT, headers=headers)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fetch(file.url, str(part), None)
        verify_file(part, file.checksum)
        part.replace(target)
    except RequestException as error:
        raise ValueError(f"cannot download {file.url}: {_reason(error)}") from None
    except OSError as error:
        raise ValueError(f"cannot write to {part}: {error.strerror or error}") from None
    finally:
        if part.is_file():
            part.unlink()
    return target


def _reason(error: BaseException) -> str:
    """Describe a network error by the server's words, or by its first cause."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"{response.status_code} {response.reason}"
    while behind := error.__cause__ or error.__context__:
        error = behind
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()


def verify_file(path: Path, checksum: str) -> None:
    """Check that a file has a digest, written after ``md5:`` or ``sha256:``.

    Raises:
        ValueError: if the file is missing, cannot be read, or has another digest.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> verify_file(path, "md5:d41d8cd98f00b204e9800998ecf8427e")
    """
    import pooch

    algorithm, _, expected = checksum.lower().partition(":")
    try:
        digest = pooch.file_hash(str(path), alg=algorithm)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    if digest != expected:
        raise ValueError(f"{path} is damaged: {algorithm} must be {expected}, got {digest}")


def extract_archive(archive: Path, into: Path) -> Path:
    """Unpack a zip or tar archive into a new folder.

    Nothing is written outside the folder. The archive is unpacked to a temporary folder that is
    renamed at the end, so the folder is complete or absent.

    Args:
        archive: Zip or tar file, compressed or not. The format is detected from its content.
        into: Folder to create and return. It must be empty or must not exist.

    Raises:
        ValueError: if the archive is missing or damaged, a tar archive holds a device or a path
            outside the folder, or the folder cannot be written.
    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ValueError(f"cannot unpack {archive}: {into} exists already")
    try:
        with staged_folder(into) as staging:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(staging)  # creates no links; removes roots, drives and ".."
            else:
                with tarfile.open(archive) as packed_tar:
                    packed_tar.extractall(staging, filter="data")
    except tarfile.FilterError as error:
        raise ValueError(f"cannot unpack {archive}: it is unsafe ({error})") from None
    except OSError as error:
        raise ValueError(f"cannot unpack {archive}: {error.strerror or error}") from None
    except Exception as error:  # any exception of its reader
        reason = str(error).partition("\n")[0][:200]  # of every format tried, or of many bytes
        raise ValueError(f"{archive} is damaged: {reason}") from None
    return into

"""A published file: fetched or found, and verified before it gets its name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from bayescl_lab._downloads.sources import DataSource, RemoteFile, data_folder
from bayescl_lab._downloads.transfer import download

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes that there will be."""

_BLOCK = 1 << 20


class DamagedError(ValueError):
    """A file is not the one that was published."""


def fetch_source(
    source: DataSource, folder: Path | None = None, *, progress: Progress | None = None
) -> tuple[Path, ...]:
    """Fetch every file of a data set into ``<folder>/<name of the data set>``.

    Args:
        source: the data set.
        folder: the folder of data sets; :func:`data_folder` where not given.
        progress: called with the bytes done and due of the whole data set.

    Returns:
        The files, verified.

    Raises:
        ValueError: if nothing can be downloaded, or as :func:`fetch_file` does.
    """
    if not source.files:
        raise ValueError(f"{source.name} cannot be downloaded: {source.instructions}")
    place = (folder or data_folder()) / source.name
    paths: list[Path] = []
    before = 0
    for file in source.files:

        def report(done: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, source.size)

        paths.append(fetch_file(file, place, progress=report))
        before += file.size
    return tuple(paths)


def fetch_file(file: RemoteFile, folder: Path, *, progress: Progress | None = None) -> Path:
    """Download a file, or use the one that is there.

    Bytes go to ``<filename>.part``, which a later call continues; only what has the stated size
    and checksum is renamed to ``filename``.

    Args:
        file: what to fetch.
        folder: where to put it; made if it is missing.
        progress: called after each block with the bytes done and due.

    Returns:
        The verified file in ``folder``.

    Raises:
        ValueError: if the file cannot be fetched or written, or is not the one that was
            published. A damaged download is removed, a damaged file that was there is not.
    """
    target = folder / file.filename
    if target.exists():
        verify_copy(target, file)
    else:
        part = target.with_name(target.name + ".part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            download(file, part, progress)
            verify_copy(part, file)
            part.replace(target)
        except OSError as error:
            raise ValueError(f"cannot write to {part}: {error.strerror or error}") from None
        except DamagedError as error:
            part.unlink()
            raise ValueError(f"{error} (from {file.url}; the download was removed)") from None
    if progress is not None:
        progress(file.size, file.size)
    return target


def verify_copy(path: Path, file: RemoteFile) -> None:
    """Check that a copy has the size and the checksum of the published file.

    Raises:
        DamagedError: if it has not.
    """
    size = path.stat().st_size
    if size != file.size:  # says more than a digest does, and at once
        raise DamagedError(f"{path} is damaged: it must have {file.size} bytes, got {size}")
    verify_file(path, file.checksum)


def verify_file(path: Path, checksum: str) -> None:
    """Check that a file is the one that was published.

    Args:
        path: the file.
        checksum: ``md5:`` or ``sha256:`` and the hexadecimal digest.

    Raises:
        ValueError: if the file is missing, cannot be read, or has another digest.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> verify_file(path, "md5:d41d8cd98f00b204e9800998ecf8427e")
    """
    algorithm, _, expected = checksum.lower().partition(":")
    if algorithm not in ("md5", "sha256") or not expected:
        raise ValueError(f"checksum must begin with md5: or sha256:, got {checksum!r}")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with path.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    if digest.hexdigest() != expected:
        raise DamagedError(
            f"{path} is damaged: {algorithm} must be {expected}, got {digest.hexdigest()}"
        )

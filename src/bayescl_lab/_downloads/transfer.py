"""Bytes from a server to a file: resumed by range, asked for again where a connection breaks."""

from __future__ import annotations

import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from bayescl_lab._downloads.sources import RemoteFile

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 4  # in a row that brought nothing new
_PAUSE = 0.5  # seconds before the second attempt, more before later ones

_BROKEN = "the connection broke"


def download(
    file: RemoteFile, part: Path, progress: Callable[[int, int], None] | None = None
) -> None:
    """Fill ``part`` up to the stated size; what it holds already is kept.

    Args:
        file: what to fetch.
        part: the file to fill.
        progress: called after each block with the bytes done and due.

    Raises:
        ValueError: if the server refuses, offers another size, or stops halfway for good.
        OSError: if the disk refuses.
    """
    fruitless = reached = 0
    while (begin := _size(part)) != file.size:
        if begin > file.size:  # left over from another file of this name
            part.unlink()
            begin = 0
        _check_space(file, part, begin)
        reason = _continue(file, part, progress)
        # A server without ranges starts over: only more bytes than before are progress.
        fruitless = 0 if _size(part) > max(begin, reached) else fruitless + 1
        reached = max(reached, _size(part))
        if fruitless == _ATTEMPTS:
            raise ValueError(
                f"{file.url} stopped at {_size(part)} of {file.size} bytes ({reason}); "
                "the same command continues from there"
            )
        time.sleep(_PAUSE * fruitless)


def _continue(file: RemoteFile, part: Path, progress: Callable[[int, int], None] | None) -> str:
    """Ask once for the bytes that are missing and return why no more of them came."""
    begin = _size(part)
    request = urllib.request.Request(file.url, headers={"User-Agent": "bayescl"})
    if begin:
        request.add_header("Range", f"bytes={begin}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            return "the server has fewer bytes than were there"
        raise ValueError(f"cannot download {file.url}: {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        if begin == 0:
            raise ValueError(f"cannot download {file.url}: {_reason(error)}") from None
        return _reason(error)
    with response:
        extent = response.headers.get("Content-Range", "")
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        offered = extent.rpartition("/")[2] if resumed else response.headers.get("Content-Length")
        if offered and offered.isdigit() and int(offered) != file.size:
            raise ValueError(
                f"{file.url} is not the file that was published: "
                f"it must have {file.size} bytes, got {offered}"
            )
        if not (resumed and extent.startswith(f"bytes {begin}-")):
            begin = 0
        return _append(response, part, begin, file, progress)


def _append(
    response: http.client.HTTPResponse,
    part: Path,
    begin: int,
    file: RemoteFile,
    progress: Callable[[int, int], None] | None,
) -> str:
    """Write what the server sends behind the first ``begin`` bytes and return why it ended."""
    done, ended = begin, _BROKEN
    with part.open("r+b" if begin else "wb") as output:
        output.seek(begin)
        output.truncate()
        while done <= file.size:  # one byte too many tells that it is another file
            try:
                block = response.read(min(_BLOCK, file.size + 1 - done))
            except http.client.IncompleteRead as error:
                output.write(error.partial)
                break
            except (OSError, http.client.HTTPException) as error:
                ended = _reason(error)
                break
            if not block:
                break
            output.write(block)
            done += len(block)
            if progress is not None:
                progress(min(done, file.size), file.size)
        output.flush()
        os.fsync(output.fileno())
    if done > file.size:
        part.unlink()
        raise ValueError(
            f"{file.url} is not the file that was published: "
            f"it must have {file.size} bytes, got more"
        )
    return ended


def _size(path: Path) -> int:
    """Bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _check_space(file: RemoteFile, part: Path, begin: int) -> None:
    """Refuse to begin what cannot end."""
    free, due = shutil.disk_usage(part.parent).free, file.size - begin
    if free < due:
        raise ValueError(f"{file.filename} needs {due} more bytes, {part.parent} has {free} free")


def _reason(error: Exception) -> str:
    """A network error in a few words."""
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__).lower()

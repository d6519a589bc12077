"""Archives unpacked so that nothing lands outside, and nothing is left half done."""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from bayescl_lab._files import staged_folder

_DAMAGE = (
    EOFError,
    NotImplementedError,  # compression that nobody uses
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def extract_archive(archive: Path, into: Path) -> Path:
    """Unpack a zip or tar archive into a new folder.

    Only plain files and folders are unpacked, without the archive's owners and permissions.
    Everything is written beside ``into`` and renamed at the end, so that the folder is there as
    a whole or not at all.

    Args:
        archive: a ``.zip`` file or a tar file, compressed or not; told apart by content.
        into: the folder to make; nothing or an empty folder may be there.

    Returns:
        ``into``.

    Raises:
        ValueError: if the archive is missing or damaged, holds an absolute path, ``..``, a
            link or a device, or if the disk refuses.
    """
    if not archive.is_file():
        raise ValueError(f"there is no file {archive}")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ValueError(f"cannot unpack {archive}: {into} exists already")
    try:
        with staged_folder(into) as staging:
            if zipfile.is_zipfile(archive):
                _extract_zip(archive, staging)
            else:
                _extract_tar(archive, staging)
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0]  # tarfile tells of every format it tried
        raise ValueError(f"{archive} is damaged: {reason}") from None
    except OSError as error:
        raise ValueError(f"cannot unpack {archive}: {error.strerror or error}") from None
    return into


def _extract_tar(archive: Path, staging: Path) -> None:
    """Unpack the files and folders of a tar archive."""
    with tarfile.open(archive, "r:*") as content:
        for member in content:
            target = _target(archive, staging, member.name)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile() and (source := content.extractfile(member)) is not None:
                with source:
                    _write(source, target)
            else:
                raise ValueError(f"{archive} is unsafe: {member.name!r} is a link or a device")


def _extract_zip(archive: Path, staging: Path) -> None:
    """Unpack the files and folders of a zip archive."""
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            target = _target(archive, staging, member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ValueError(f"{archive} is unsafe: {member.filename!r} is a link or a device")
            if member.flag_bits & 1:
                raise ValueError(f"{archive} cannot be read: {member.filename!r} is encrypted")
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                with content.open(member) as source:
                    _write(source, target)


def _target(archive: Path, staging: Path, name: str) -> Path:
    """Where a member goes, refusing names that lead out of the folder."""
    windows = PureWindowsPath(name)
    if "\0" in name or windows.drive or windows.root or ".." in windows.parts:
        raise ValueError(f"{archive} is unsafe: {name!r} leads out of the folder")
    return staging.joinpath(*PurePosixPath(name).parts)


def _write(source: IO[bytes], target: Path) -> None:
    """Copy the content of a member to a file that is not there yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as output:
        shutil.copyfileobj(source, output, 1 << 20)

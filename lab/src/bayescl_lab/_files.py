"""Atomic writing of files and folders, and the error for files that cannot be read.

Data are written to a temporary file beside the target, flushed to disk, and only then moved into
place. An interrupted write leaves the previous file. This uses only the standard library, so every
package may import it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class UnreadableError(ValueError):
    """Error for a file that cannot be read. The message names the file."""


def unreadable(path: Path, error: Exception) -> UnreadableError:
    """Return a one-line error that names a damaged file, to raise instead of the original error."""
    reason = str(error).partition("\n")[0] or "it is damaged"
    if "allow_pickle" in reason or "objects in dtype" in reason:  # words of NumPy
        reason = "it contains Python objects, which may run code when loaded"
    return UnreadableError(f"cannot read {path}: {reason[:200]}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically, text in UTF-8.

    If ``path`` is a link, the file that it points to is replaced.

    Raises:
        OSError: if the file cannot be written, for example on a full disk. The message names
            ``path``, and the previous file is kept.
    """
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        staged = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            staged.chmod(0o644)
            staged.replace(target)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.strerror is None:  # the message already describes the error
            raise
        raise OSError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that is moved to ``path`` if the block ends without an error.

    Args:
        path: Folder to create, or a link to it. It must be empty or must not exist. Parent folders
            are created.

    Raises:
        OSError: if the folder cannot be written. Nothing is left in this case.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        staged.chmod(0o755)
        yield staged
        if path.is_dir():
            path.rmdir()
        staged.rename(path)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def sweep(folder: Path) -> None:
    """Remove temporary files of killed writers. There must be no active writer."""
    # :func:`write_atomically` calls a temporary file ``.NAME-`` and eight characters of tempfile's.
    for left in folder.glob(f".*.*-{'[a-z0-9_]' * 8}"):
        left.unlink(missing_ok=True)


def save_figure(figure: Figure, path: Path, *, dpi: int = 110) -> None:
    """Write a figure as a PNG file, atomically.

    Raises:
        OSError: if the file cannot be written. The previous file is kept.
    """
    from bayescl_lab._figures import png

    write_atomically(path, png(figure, dpi=dpi))

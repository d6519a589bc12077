"""Files and folders that are written completely or not at all.

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
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class UnreadableError(ValueError):
    """A file that cannot be read, which the message names."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file, text in UTF-8, so that it is there as a whole or not at all.

    Raises:
        OSError: if it cannot be written, on a full disk for one; the message names ``path``, and
            what was there before is kept.
    """
    with open_atomically(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file for a writer; it takes its place when the block ends without an error.

    Raises:
        OSError: as :func:`write_atomically` does.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> with open_atomically(folder / "weights.pt") as file:
        ...     torch.save({"alpha": 0.9}, file)
        >>> [path.name for path in folder.iterdir()]
        ['weights.pt']
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        staged = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            staged.chmod(0o644)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.strerror is None:  # not the system's words: it says already what went wrong
            raise
        raise OSError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; when the block ends without an error it becomes ``path``.

    Args:
        path: the folder; nothing or an empty folder may be there. Folders above it are made.

    Raises:
        OSError: if the disk refuses; nothing is left then.
    """
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
    # :func:`open_atomically` calls a temporary file ``.NAME-`` and eight characters of tempfile's.
    for left in folder.glob(f".*.*-{'[a-z0-9_]' * 8}"):
        left.unlink(missing_ok=True)


def save_figure(figure: Figure, path: Path, *, dpi: int = 110) -> None:
    """Write a figure as a PNG file, as a whole or not at all.

    Raises:
        OSError: if it cannot be written; what was there before is kept.
    """
    from bayescl_lab._figures import png

    write_atomically(path, png(figure, dpi=dpi))

"""Digests in files of a run, so that damaged and exchanged files are detected.

Each file contains the text ``sha256: `` and a digest, in a comment or the last field. The digest
covers all other bytes of the file and the identity of the run.
"""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

_MARK = b"sha256: "
_LENGTH = hashlib.sha256().digest_size * 2
PLACEHOLDER = _MARK + b"0" * _LENGTH
"""Text that :func:`with_digest` replaces. It must be among the last 80 bytes of the content."""
_END = 80
_BYTES_AT_ONCE = 2**20


def with_digest(content: bytes, identity: str) -> bytes:
    """Replace the placeholder in the content of a file by the digest."""
    start = content.rindex(PLACEHOLDER) + len(_MARK)
    hashed = hashlib.sha256(identity.encode())
    hashed.update(memoryview(content)[:start])
    hashed.update(content[start + _LENGTH :])
    return content[:start] + hashed.hexdigest().encode() + content[start + _LENGTH :]


def archive_with_digest(archive: bytes, identity: str) -> bytes:
    """Add the digest to a ZIP archive as its comment. The archive must not have a comment."""
    comment = len(PLACEHOLDER).to_bytes(2, "little") + PLACEHOLDER
    return with_digest(archive[:-2] + comment, identity)


def has_digest(file: BinaryIO, identity: str) -> bool:
    """Return whether a file has the right digest. The position in the file returns to the start."""
    size = file.seek(0, os.SEEK_END)
    end = max(0, size - _END)
    file.seek(end)
    tail = file.read()
    place = tail.rfind(_MARK)
    start = place + len(_MARK)
    file.seek(0)
    if place < 0:
        return False
    hashed = hashlib.sha256(identity.encode())
    left = end
    while left and (chunk := file.read(min(left, _BYTES_AT_ONCE))):
        hashed.update(chunk)
        left -= len(chunk)
    hashed.update(tail[:start] + tail[start + _LENGTH :])
    file.seek(0)
    return hashed.hexdigest().encode() == tail[start : start + _LENGTH]

"""Digests in files of a run, so that damaged and exchanged files are detected.

Each file contains the text ``sha256: `` and a digest, in a comment or the last field. The digest
covers all other bytes of the file and the identity of the run.
"""

from __future__ import annotations

import hashlib

_MARK = b"sha256: "
_LENGTH = hashlib.sha256().digest_size * 2
PLACEHOLDER = _MARK + b"0" * _LENGTH
"""Text that :func:`with_digest` replaces. It must be among the last 80 bytes of the content."""
_END = 80


def with_digest(content: bytes, identity: str) -> bytes:
    """Replace the placeholder in the content of a file by the digest."""
    start = content.rindex(PLACEHOLDER) + len(_MARK)
    digest = _digest(content, start, identity)
    return content[:start] + digest + content[start + _LENGTH :]


def archive_with_digest(archive: bytes, identity: str) -> bytes:
    """Add the digest to a ZIP archive as its comment. The archive must not have a comment."""
    comment = len(PLACEHOLDER).to_bytes(2, "little") + PLACEHOLDER
    return with_digest(archive[:-2] + comment, identity)


def has_digest(content: bytes, identity: str) -> bool:
    """Return whether the content of a file has the right digest."""
    index = content.rfind(_MARK, -_END)
    start = index + len(_MARK)
    return index >= 0 and content[start : start + _LENGTH] == _digest(content, start, identity)


def _digest(content: bytes, start: int, identity: str) -> bytes:
    """Compute the digest of all bytes except those of the digest, which begins at ``start``."""
    hashed = hashlib.sha256(identity.encode())
    hashed.update(memoryview(content)[:start])
    hashed.update(memoryview(content)[start + _LENGTH :])
    return hashed.hexdigest().encode()

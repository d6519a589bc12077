from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path):
    """Write text to a file in the test's own folder, and return its path."""

    def put(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return put

import os
from pathlib import Path

import pytest

DEVELOPMENT_DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def write(tmp_path: Path):
    """Write text to a file in the test's own folder, and return its path."""

    def put(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return put


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch):
    """Point the data folder to real data; the test is skipped where the data set is absent."""
    folder = Path(os.environ.get("BAYESCL_DATA") or DEVELOPMENT_DATA)

    def point(name: str) -> None:
        if not (folder / name).is_dir():
            pytest.skip(f"there is no {name} in {folder}")
        monkeypatch.setenv("BAYESCL_DATA", str(folder))

    return point

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's data."""
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path_factory.mktemp("data")))

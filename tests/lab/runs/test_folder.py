import pytest

from bayescl_lab.runs.folder import RunFolder, read_json, write_json


def test_nan_never_gets_into_a_result_and_a_damaged_one_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "train images", {"loss": "hard"})
    with pytest.raises(ValueError, match="JSON"):
        write_json(folder.result_file, {"accuracy": float("nan")})
    assert not folder.is_finished
    for content in ("", "[]", "{", "null"):
        folder.result_file.write_text(content)
        with pytest.raises(ValueError, match="is damaged"):
            read_json(folder.result_file)

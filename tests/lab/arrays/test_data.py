"""Files of rows and signals: formats, columns, splits by domains, and refusals."""

import numpy as np
import polars as pl
import pytest
import torch

from bayescl_lab.arrays.data import load_arrays

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
LABELS = np.array(["ant", "bee"] * 30)
PLATES = np.repeat(["p1", "p2", "p3"], 20)


def saved(folder, suffix, **columns):
    """Write rows with labels and domains in a format, with further columns."""
    path = folder / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, x=X, labels=LABELS, domains=PLATES, **columns)
        return str(path)
    frame = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": LABELS, "plate": PLATES}
    table = pl.DataFrame({**frame, **columns})
    if suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="\t" if suffix == ".tsv" else ",")
    return str(path)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".tsv", ".parquet"])
def test_all_formats_hold_the_same_items(tmp_path, suffix):
    parts = load_arrays(saved(tmp_path, suffix), split=False)
    np.testing.assert_allclose(parts.train.items.numpy(), X, rtol=1e-6)
    assert [parts.train.class_names[it] for it in parts.train.labels] == LABELS.tolist()
    assert [parts.train.domain_names[it] for it in parts.train.domains] == PLATES.tolist()
    assert any("domains from" in line for line in parts.remarks)


def test_text_columns_are_left_out_with_a_remark_and_ids_are_no_features(tmp_path):
    more = {"id": np.arange(60), "note": np.array(["x"] * 60), "plate_2": np.arange(60) % 2}
    parts = load_arrays(saved(tmp_path, ".csv", **more), domain_column="plate_2", split=False)
    # The other column of domains is text.
    assert "text columns are left out: plate, note" in " ".join(parts.remarks)
    assert parts.train.items.shape == (60, 3)
    assert parts.train.ids.tolist() == [str(number) for number in range(60)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"d": [None] + [1.0] * 59}, "1 values are missing, in the columns d"),
        ({"d": [float("inf")] + [1.0] * 59}, "x must be finite"),
        ({"d": ["1.5"] * 59 + ["oops"]}, "line 61: 'oops' in column 'd' is not a number"),
    ],
)
def test_tables_with_gaps_are_refused_in_one_line(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message):
        load_arrays(saved(tmp_path, ".csv", **columns))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X[:, :, None, None]}, "x must have 2 or 3 dimensions"),
        ({"x": X.astype(complex)}, "x must contain real numbers"),
        ({"x": np.full((60, 3), 7.0)}, "all features are constant"),
        ({"x": np.full((60, 3), 1e300)}, "too large values"),
        ({"x": X[:3]}, "at least 4 items"),
        ({"y": X}, "has no array x"),
        ({"x": X, "labels": LABELS[:5]}, "labels must have one value per item"),
        ({"x": X, "labels": X[:, 0]}, "integers or strings"),
        ({"x": X, "ids": np.zeros(60)}, "ids must differ, got 1 distinct of 60"),
        ({"x": X, "labels": np.zeros(60, int)}, "probes need two classes"),
        (
            {"x": X, "labels": LABELS, "is_train": np.ones(60, bool)},
            "is_train must be true for some items, not all",
        ),
        ({"x": np.array([X, X[:3]], dtype=object)}, "Python objects"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_arrays(str(tmp_path / "data.npz"))


def test_every_domain_is_left_out_once_by_consecutive_seeds(tmp_path):
    data = saved(tmp_path, ".npz")
    seen = []
    for fold in range(3):
        parts = load_arrays(data, leave_out=1, fold=fold)
        assert not set(parts.train.domains.tolist()) & set(parts.evaluation.domains.tolist())
        assert len(parts.train) + len(parts.evaluation) == 60
        seen += parts.evaluation.domains.unique().tolist()
        held = load_arrays(data, leave_out=1, fold=fold, evaluate_on="validation")
        assert not set(held.evaluation.ids) & set(parts.evaluation.ids)
    assert sorted(seen) == [0, 1, 2]


def test_standardizing_by_domain_removes_means_and_scales_of_domains(tmp_path):
    shifted = X * (1 + np.arange(60) // 20)[:, None] + 100 * (np.arange(60) // 20)[:, None]
    np.savez(tmp_path / "data.npz", x=shifted, labels=LABELS, domains=PLATES)
    store = load_arrays(str(tmp_path / "data.npz"), standardize="domain", split=False).train
    for domain in range(3):
        values = store.items[store.domains == domain]
        torch.testing.assert_close(values.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
        torch.testing.assert_close(values.std(0, correction=0), torch.ones(3))


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
def test_truncated_files_are_refused(tmp_path, suffix):
    if suffix == ".npy":
        np.save(tmp_path / "data.npy", X)
    else:
        saved(tmp_path, suffix)
    path = tmp_path / f"data{suffix}"
    content = path.read_bytes()
    for part in range(25):
        path.write_bytes(content[: len(content) * part // 25])
        with pytest.raises(ValueError, match="data"):
            load_arrays(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4,5\n6,7\n8,9\n",
        "a,a\n1,2\n3,4\n5,6\n7,8\n",
        "a,b\n1;5,2\n3,x\n4,y\n5,z\n",
        "",
        "a,b\n",
        "note\nx\ny\nz\nw\n",
        "a,b\n1,nan\n2,3\n4,5\n6,7\n",
        "a,b\n1,1e999\n2,3\n4,5\n6,7\n",
        '{"a": 1}',
        "a\tb\n1\t2\n3\t\n4\t5\n6\t7\n",
    ],
)
def test_hostile_text_is_refused(tmp_path, text):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(ValueError, match=r"data\.csv"):
        load_arrays(str(tmp_path / "data.csv"))

"""Runs on arrays: the commands, bitwise resuming, custom code, and what images share."""

import json

import numpy as np
import pytest
import torch
from runs.same_run import assert_same_run

import bayescl_lab
from bayescl_lab.runs.arrays.array_run import ArrayRun, train_arrays
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.exporting import export_run, run_embeddings
from bayescl_lab.runs.losses import LossSettings


@pytest.fixture
def rows(tmp_path):
    """A file of rows in six domains with two classes."""
    random = np.random.default_rng(0)
    labels, domains = np.arange(240) % 2, np.arange(240) // 2 % 6
    x = random.normal(size=(240, 8)) + 3 * labels[:, None] + 2 * domains[:, None]
    np.savez(tmp_path / "rows.npz", x=x, labels=labels, domains=domains)
    return str(tmp_path / "rows.npz")


@pytest.fixture
def signals(tmp_path):
    """A file of signals of two frequencies."""
    random, labels = np.random.default_rng(0), np.arange(120) % 2
    waves = np.sin(np.arange(40) * (1 + labels[:, None]) / 3 + random.uniform(0, 6, (120, 1)))
    x = waves[:, None] + 0.1 * random.normal(size=(120, 2, 40))
    np.savez(tmp_path / "signals.npz", x=x, labels=labels)
    return str(tmp_path / "signals.npz")


def few(data, **values):
    """Return settings of a short run."""
    short = {"epochs": 2, "batch_size": 64, "device": "cpu", "width": 16, **values}
    return ArraySettings(data=data, loss=LossSettings("info_nce"), **short)


def test_a_run_embeds_exports_and_serves_the_same_features(rows, tmp_path):
    result = train_arrays(few(rows, domains=True, leave_out=2), tmp_path / "run")
    scores = result.row.scores
    assert {"knn", "knn_domains", "nmi", "ari", "recall", "linear"} <= scores.keys()
    assert scores["knn"] == scores["knn_domains"]  # no domain is in both parts
    assert set(result.row.recalls) == {"0", "1"}
    assert scores["recall"].mean == min(it.mean for it in result.row.recalls.values())
    frame = run_embeddings(tmp_path / "run", "all")
    x = np.load(rows)["x"].astype(np.float32)
    served = bayescl_lab.load(tmp_path / "run").embed(x)
    order = frame["item"].cast(int).to_numpy()
    np.testing.assert_allclose(frame["embedding"].to_numpy(), served.numpy()[order], atol=1e-5)
    export_run(tmp_path / "run", tmp_path / "exported")
    program = torch.export.load(tmp_path / "exported" / "encoder.pt2").module()
    torch.testing.assert_close(program(torch.from_numpy(x[:7])), served[:7])
    card = json.loads((tmp_path / "exported" / "model.json").read_text())
    assert card["items"] == {"dtype": "float32", "shape": ["any number", 8]}


def test_a_resumed_run_is_bitwise_the_same(signals, tmp_path):
    train_arrays(few(signals, epochs=3), tmp_path / "whole")

    def stop(epoch, _):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_arrays(few(signals, epochs=3), tmp_path / "parts", progress=stop)
    train_arrays(few(signals, epochs=3), tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_batches_have_few_domains_with_domains_and_are_drawn_from_all_without(rows):
    arrays = np.load(rows)
    np.savez(rows, x=arrays["x"], domains=arrays["domains"])
    for is_on, most in ((True, 4), (False, 6)):
        run = ArrayRun(few(rows, domains=is_on, batch_size=32))
        domains = run.parts.train.domains
        counts = [len(domains[rows_].unique()) for rows_ in run.batches.sampler]
        assert max(counts) == most


def test_custom_views_and_encoders_are_used_and_must_be_named_again(rows, tmp_path):
    seen = []

    def view(items, generator):
        seen.append(len(items))
        return items + torch.randn(items.shape, generator=generator)

    encoder = torch.nn.Sequential(torch.nn.Linear(8, 5))
    settings = few(rows, views="mine:view", encoder="mine:build")
    with pytest.raises(ValueError, match="custom views"):
        train_arrays(settings, tmp_path / "run", encoder=encoder)
    train_arrays(settings, tmp_path / "run", encoder=encoder, view=view)
    assert set(seen) == {64}
    loaded = bayescl_lab.load(tmp_path / "run", encoder=encoder)
    assert loaded.embed(np.zeros((2, 8))).shape == (2, 5)


def test_other_items_must_have_the_shape_of_training(rows, signals, tmp_path):
    train_arrays(few(rows), tmp_path / "run")
    with pytest.raises(ValueError, match=r"must have shape \[8\] as in training, got \[2, 40\]"):
        ArrayRun.evaluate_in(tmp_path / "run", data=signals)
    with pytest.raises(ValueError, match="must be finite"):
        bayescl_lab.load(tmp_path / "run").embed(np.full((2, 8), np.nan))
    changed = {**np.load(rows)}
    changed["x"][0] += 1
    np.savez(rows, **changed)
    with pytest.raises(ValueError, match="items changed since training: 1 changed"):
        ArrayRun.evaluate_in(tmp_path / "run")

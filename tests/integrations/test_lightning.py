"""Callbacks for alpha and diagnostics in a Lightning module that knows nothing of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("lightning.pytorch", reason="needs lightning")

import lightning.pytorch as pl

import bayescl
from bayescl.estimation import LinearRamp
from bayescl.integrations.lightning import AlphaCallback, DiagnosticsCallback
from integrations import examples

pytestmark = pytest.mark.filterwarnings("default")


class Plain(pl.LightningModule):
    """Somebody's module."""

    def __init__(self, loss: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2)
        )
        self.parts = torch.nn.ModuleDict({"loss": loss})
        self.seen: list[float] = []

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.encoder(rows)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        rows, _ = batch
        self.seen.append(getattr(self.parts["loss"], "alpha", 0.0))
        return self.parts["loss"](self(rows), self(rows + 0.1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fitted(
    folder: Path, *callbacks: pl.Callback, loss: Any = None, epochs: int = 3, **options: Any
) -> tuple[Plain, pl.Trainer]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 3
    rows = torch.randn(24, 6, generator=generator) + 3 * torch.eye(6)[labels]
    data = torch.utils.data.TensorDataset(rows, labels)
    module = Plain(bayescl.BayesianContrastiveLoss() if loss is None else loss)
    off = ("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger")
    options |= {"max_epochs": epochs, "accelerator": "cpu", "default_root_dir": folder}
    trainer = pl.Trainer(callbacks=list(callbacks), **options, **dict.fromkeys(off, False))
    torch.manual_seed(1)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=12))
    return module, trainer


def views(module: pl.LightningModule, batch: list[torch.Tensor]) -> list[torch.Tensor]:
    return [module(batch[0]), module(batch[0] + 0.1)]


def test_alpha_follows_a_schedule(tmp_path: Path) -> None:
    ramp = LinearRamp(end=0.9, start=0.5, steps=3, every=1)
    module, _ = fitted(tmp_path, AlphaCallback(ramp, loss="parts.loss"))
    assert module.seen == pytest.approx([ramp.value(epoch) for epoch in (0, 0, 1, 1, 2, 2)])


def test_alpha_is_measured_once_in_every_few_epochs_also_if_one_is_broken_off(
    tmp_path: Path,
) -> None:
    epochs = []

    def measured(module: pl.LightningModule, epoch: int) -> float:
        epochs.append(epoch)
        return 0.6 + epoch / 100

    callback = AlphaCallback(measured, loss="parts.loss", every=2)
    module, trainer = fitted(tmp_path, callback, epochs=4)
    assert epochs == [0, 2]
    assert module.seen == pytest.approx([0.6] * 4 + [0.62] * 4)
    resumed = AlphaCallback(measured, loss="parts.loss", every=2)
    resumed.load_state_dict({"set_in": 4})
    resumed.on_train_batch_start(trainer, module)  # whose fourth epoch is over
    assert epochs == [0, 2]


def test_diagnostics_are_logged_and_do_not_touch_training(tmp_path: Path) -> None:
    plain, _ = fitted(tmp_path)
    callback = DiagnosticsCallback(
        views, labels=lambda batch: batch[1], loss="parts.loss", every_n_steps=2
    )
    watched, trainer = fitted(tmp_path, callback)
    torch.testing.assert_close(watched.state_dict(), plain.state_dict())
    logged = trainer.logged_metrics
    without_labels = {"effective_negatives", "effective_negatives_in_gradient", "label_free_alpha"}
    with_labels = {"measured_alpha", "measured_tau_plus", "false_negative_auc"}
    names = {name.removeprefix("diagnostics/") for name in logged}
    assert names == without_labels | with_labels
    # Of 12 rows of 3 classes, two views each: 3 of the 11 other items are of the anchor's class.
    assert logged["diagnostics/measured_tau_plus"] == pytest.approx(3 / 11)
    assert 0 < logged["diagnostics/effective_negatives"] <= 22
    assert logged["diagnostics/false_negative_auc"] > 0.5
    embedded = Mock(side_effect=views)
    unlabelled = DiagnosticsCallback(embedded, loss="parts.loss", every_n_steps=1)
    logged = fitted(tmp_path, unlabelled, accumulate_grad_batches=2)[1].logged_metrics
    assert {name.removeprefix("diagnostics/") for name in logged} == without_labels
    assert embedded.call_count == 3, "once per step, not once per batch"


def test_losses_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    callback = AlphaCallback(LinearRamp(end=0.9), loss="parts.loss")
    with pytest.raises(TypeError, match="loss must be a loss with an alpha, got InfoNCELoss"):
        fitted(tmp_path, callback, loss=bayescl.InfoNCELoss(), epochs=1)
    with pytest.raises(TypeError, match="encoder must be a loss"):
        fitted(tmp_path, DiagnosticsCallback(views, loss="encoder", every_n_steps=1), epochs=1)


def test_the_example_trains_with_lightlys_line_and_with_ours(tmp_path: Path) -> None:
    theirs = pytest.importorskip("lightly.loss", reason="needs lightly")
    before, after = examples.both_ways("lightning.md", "lightning_simclr.py", tmp_path)
    assert isinstance(before["model"].criterion, theirs.NTXentLoss)
    assert isinstance(after["model"].criterion, bayescl.BayesianContrastiveLoss)
    for names in (before, after):
        assert names["trainer"].logged_metrics["loss"].isfinite()

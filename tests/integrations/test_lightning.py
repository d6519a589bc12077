"""Diagnostics in a Lightning module that knows nothing of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("lightning.pytorch", reason="needs lightning")

import lightning.pytorch as pl

import bayescl
from bayescl.integrations.lightning import DiagnosticsCallback

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

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.encoder(rows)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        rows, _ = batch
        return self.parts["loss"](self(rows), self(rows + 0.1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fitted(
    folder: Path, *callbacks: pl.Callback, epochs: int = 3, **options: Any
) -> tuple[Plain, pl.Trainer]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 3
    rows = torch.randn(24, 6, generator=generator) + 3 * torch.eye(6)[labels]
    data = torch.utils.data.TensorDataset(rows, labels)
    module = Plain(bayescl.BayesianContrastiveLoss())
    off = ("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger")
    options |= {"max_epochs": epochs, "accelerator": "cpu", "default_root_dir": folder}
    trainer = pl.Trainer(callbacks=list(callbacks), **options, **dict.fromkeys(off, False))
    torch.manual_seed(1)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=12))
    return module, trainer


def views(module: pl.LightningModule, batch: list[torch.Tensor]) -> list[torch.Tensor]:
    return [module(batch[0]), module(batch[0] + 0.1)]


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


def test_something_else_than_a_loss_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="encoder must be a loss"):
        fitted(tmp_path, DiagnosticsCallback(views, loss="encoder", every_n_steps=1), epochs=1)

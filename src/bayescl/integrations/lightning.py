"""A callback for any Lightning module that trains with a loss of this package.

The losses themselves need no adapter: make one in ``__init__`` and call it in ``training_step``.
Tested with Lightning 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bayescl.axes import Tensor
from bayescl.checks import check_count, missing
from bayescl.diagnostics import diagnose, in_eval_mode, score_candidates
from bayescl.losses import ContrastiveLoss

try:
    import lightning.pytorch as pl
except ImportError as error:
    raise missing("Lightning", "lightning", error) from error


class DiagnosticsCallback(pl.Callback):
    """Log every few steps how a module's loss treats its candidates.

    It logs under ``diagnostics/`` the effective number of negatives and the label-free alpha. With
    labels it also logs the measured alpha and tau_plus, and how well weights find false negatives
    (ROC AUC). Embeddings are computed again in ``eval()`` mode, so training is unaffected.

    Args:
        embeddings: called with module and batch; returns the arguments of the loss, such as two
            views.
        labels: called with the batch; returns the class of each item. None without labels.
        loss: attribute name of the loss in the module, with dots for nested modules.
        layout: how the loss is called; see :func:`~bayescl.diagnostics.score_candidates`.
        every_n_steps: number of steps between two diagnoses, at least 1.

    Raises:
        ValueError: if ``every_n_steps`` is not positive.

    Example:
        ::

            def views(module, batch):
                (view_1, view_2), _ = batch
                return module(view_1), module(view_2)

            Trainer(callbacks=[DiagnosticsCallback(views, labels=lambda batch: batch[1])])
    """

    def __init__(
        self,
        embeddings: Callable[[pl.LightningModule, Any], Sequence[Tensor]],
        *,
        labels: Callable[[Any], Tensor] | None = None,
        loss: str = "loss",
        layout: Any = "two_views",
        every_n_steps: int = 100,
    ) -> None:
        self.embeddings = embeddings
        self.labels = labels
        self.loss = loss
        self.layout = layout
        self.every_n_steps = check_count("every_n_steps", every_n_steps, 1)

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Note the step that training starts from."""
        self.diagnosed_at = trainer.global_step

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Diagnose the last batch of every ``every_n_steps``-th step."""
        del outputs
        step = trainer.global_step  # the same for all batches whose gradients are accumulated
        if step == self.diagnosed_at or step % self.every_n_steps:
            return
        self.diagnosed_at = step
        loss: Any = pl_module.get_submodule(self.loss)
        if not isinstance(loss, ContrastiveLoss):
            raise TypeError(f"{self.loss} must be a loss of bayescl, got {type(loss).__name__}")
        labels = None if self.labels is None else self.labels(batch)
        with torch.no_grad(), in_eval_mode(pl_module):
            rows = self.embeddings(pl_module, batch)
            scored = score_candidates(loss, *rows, layout=self.layout, labels=labels)
        result = diagnose([scored])
        figures: dict[str, Any] = {
            "effective_negatives": result.effective.weighted,
            "effective_negatives_in_gradient": result.effective.in_gradient,
            "label_free_alpha": result.label_free and result.label_free.model,
            "measured_alpha": result.measured and result.measured.model,
            "measured_tau_plus": result.measured_tau_plus,
            "false_negative_auc": result.by_weight and result.by_weight.roc_auc,
        }
        available = {f"diagnostics/{k}": float(v) for k, v in figures.items() if v is not None}
        pl_module.log_dict(available, batch_size=len(rows[0]))

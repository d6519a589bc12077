"""Embeddings of a run on images or arrays."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.measures import MOST_ITEMS
from bayescl_lab.items.probes import extract_features
from bayescl_lab.items.store import UNLABELED
from bayescl_lab.runs.folder import Kind
from bayescl_lab.runs.loading import encoder_run


def run_arrays(
    path: Path, *, data: str | None = None, encoder: nn.Module | None = None
) -> tuple[EmbeddingArrays, int]:
    """Embed random items of a run with its last checkpoint. The run need not be finished.

    Args:
        path: Run folder.
        data: Other items to inspect. Default: the training items of the run.
        encoder: Custom network of the run, if it has one.

    Returns:
        Embeddings after the projection head, of items without augmentation, with labels and
        domains; and the batch size of the run. Items with a label are preferred.

    Raises:
        ValueError: if the folder does not hold a run of an encoder with a checkpoint.
    """
    _, run, _ = encoder_run(Kind.of(path)).reopen(path, data=data, encoder=encoder)
    store = run.parts.train
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    is_labeled = store.labels.cpu()[order] != UNLABELED
    rows = order[is_labeled.long().argsort(descending=True, stable=True)][:MOST_ITEMS]
    chosen = store.subset(rows)
    model = nn.Sequential(run.model, run.model.projection_head).to(run.device)
    # A code that all items share has no information.
    labels, domains = (
        None if codes is None or len(codes.unique()) < 2 else codes.cpu().numpy()
        for codes in (chosen.labels, chosen.domains)
    )
    embeddings = extract_features(model, chosen).cpu().numpy()
    measured = f"projections of unaugmented {store.noun}"

    def pictures(of: Tensor) -> tuple[Tensor, Tensor]:
        shown = chosen.take(of).to(run.device)
        augmented = run.model.draw_views(shown, (1,), 0)[0]
        return run.model.augmentation.plain(shown).cpu(), augmented.cpu()

    arrays = EmbeddingArrays(
        embeddings,
        labels=labels,
        domains=domains,
        measured=measured,
        ids=chosen.ids,
        pictures=pictures if store.noun == "images" else None,
    )
    return arrays, run.batch_size

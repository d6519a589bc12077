"""A loss with the interface of lightly's ``NTXentLoss``, with and without a memory bank.

It replaces lightly's class anywhere, and does not need lightly itself. Tested against lightly 1.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count
from bayescl.functional.similarity import unit_vectors
from bayescl.losses import CandidateQueue, ContrastiveLoss, InfoNCELoss


class NTXentLoss(nn.Module):
    """Any loss of this package with lightly's arguments; by default InfoNCE, as lightly's own.

    Without a bank every row of both outputs is an anchor and all rows of other images are its
    candidates, as in SimCLR. With a bank the rows of ``out0`` are anchors and the bank holds the
    candidates, as in MoCo.

    The bank starts empty (lightly's starts with random rows), so the first step contrasts within
    the batch. Its rows are part of ``state_dict``, so training resumes where it stopped.

    Args:
        temperature: softmax scale, positive.
        memory_bank_size: rows and coordinates of the bank, as ``(4096, 128)``; 0 for no bank.
        gather_distributed: whether candidates come from all devices; with a bank, whether it holds
            the rows of all devices. No effect in a single process.
        loss: a class of :mod:`bayescl.losses`.
        **options: its further arguments, such as ``alpha`` and ``tau_plus``.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> criterion = NTXentLoss(temperature=0.5)
        >>> criterion(torch.eye(3), torch.eye(3))
        tensor(0.4327)
    """

    def __init__(
        self,
        temperature: float = 0.5,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        *,
        loss: type[ContrastiveLoss] = InfoNCELoss,
        **options: Any,
    ) -> None:
        super().__init__()
        self.loss = loss(temperature=temperature, **options)
        self.gather_distributed = gather_distributed
        size = (0, 0) if memory_bank_size == 0 else memory_bank_size
        if isinstance(size, int) or len(size) != 2:
            raise ValueError(f"memory_bank_size must be (rows, coordinates) or 0, got {size}")
        self.memory_bank: CandidateQueue | None = None
        if check_count("memory_bank_size", size[0], 0) > 0:
            self.memory_bank = CandidateQueue(*size, groups=self.loss.uses_labels)

    def forward(
        self,
        out0: Float[Tensor, "batch dim"],
        out1: Float[Tensor, "batch dim"],
        *,
        labels: Int[Tensor, " batch"] | None = None,
        **known: Any,
    ) -> Float[Tensor, ""]:
        """Compute the loss of two views of a batch.

        Args:
            out0: embeddings of the first views.
            out1: embeddings of the second views of the same images, in the same order. A bank
                stores them if ``out0`` needs a gradient.
            labels: class of each image, -1 where it is not known; a bank keeps them with its rows.
                Only for :class:`~bayescl.losses.LatentClassContrastiveLoss`.
            **known: without a bank, ``groups``, ``domains`` and whatever else is known of the
                images, as in :meth:`~bayescl.losses.ContrastiveLoss.forward`.

        Raises:
            ValueError: if shapes do not match, or labels are given to a loss that cannot use some.
        """
        bank, gather = self.memory_bank, self.gather_distributed and distributed.is_initialized()
        value: Tensor
        if bank is None:
            self.loss.gather = gather
            value = self.loss(out0, out1, labels=labels, **known)
            return value
        if known:
            raise ValueError(f"{', '.join(known)} must be None with a memory bank")
        if bank.candidates is None:
            value = self.loss.in_batch(out0, out1, labels=labels)
        else:
            of_bank: dict[str, Any] = {"labels": labels, "candidate_labels": bank.groups}
            of_bank = {} if labels is None else of_bank
            value = self.loss.sampled(out0, out1, bank.candidates, **of_bank)
        if out0.requires_grad:
            if labels is None and self.loss.uses_labels:
                labels = torch.full((len(out1),), -1, device=out1.device)
            rows = unit_vectors(out1.detach().float())
            if gather:
                rows = distributed.gather(rows)
                labels = None if labels is None else distributed.gather(labels)
            bank.enqueue(rows, labels)
        return value

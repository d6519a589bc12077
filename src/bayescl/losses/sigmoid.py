"""The sigmoid loss as a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch
from bayescl.checks import check_finite_number, check_floating, check_shape
from bayescl.functional.objective import Objective
from bayescl.functional.sigmoid import Sigmoid
from bayescl.losses.base import ContrastiveLoss
from bayescl.losses.parameters import LearnableTemperature

Bias = float | Float[Tensor, ""]


class SigmoidContrastiveLoss(ContrastiveLoss):
    r"""The loss of SigLIP: whether two rows are a pair is asked of every pair by itself.

    Without a softmax, an anchor's positive does not compete with its candidates:

    .. math::
        \log\big(1 + e^{-s^+ - b}\big) + \sum_j \log\big(1 + e^{s_j + b}\big).

    The mean over anchors of :meth:`in_batch` is the loss of the paper; ``both_directions`` adds
    nothing. Give the optimizer ``loss.parameters()``, too, unless temperature and bias are fixed.
    For small batches, the log of one over the batch size is a good start of the bias.

    A model that owns its bias passes it with a call, as ``bias=``: a number, or a scalar tensor
    that receives a gradient.

    Args:
        bias: added to every logit: a number, which stays fixed, or a scalar ``nn.Parameter``.
            Default: a parameter that starts at -10.
        **options: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`. The
            default temperature is a :class:`~bayescl.losses.LearnableTemperature` that starts at
            0.1.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = SigmoidContrastiveLoss(temperature=0.1, bias=-10.0)
        >>> loss.in_batch(torch.eye(3), torch.eye(3))
        tensor(0.6932)

    Reference:
        Zhai et al., "Sigmoid Loss for Language Image Pre-Training", ICCV 2023.

    See Also:
        :func:`bayescl.functional.sigmoid_loss`: the same on logits.
    """

    hyperparameters: tuple[str, ...] = ("bias",)

    def __init__(self, *, bias: float | nn.Parameter | None = None, **options: Any) -> None:
        options.setdefault("temperature", LearnableTemperature(0.1))
        super().__init__(**options)
        self.learnable_bias = nn.Parameter(torch.tensor(-10.0)) if bias is None else None
        if isinstance(bias, nn.Parameter):
            check_shape("bias", bias, ())
            self.learnable_bias = bias
        elif bias is not None:
            self.bias = bias
        self._bias_of_call: float | Tensor | None = None

    @property
    def bias(self) -> float:
        """What is added to every logit. If it is learnable, setting it moves the parameter."""
        learnable = self.learnable_bias
        return self._bias if learnable is None else float(learnable.detach())

    @bias.setter
    def bias(self, value: float) -> None:
        number = check_finite_number("bias", value)
        if self.learnable_bias is None:
            self._bias = number
        else:
            nn.init.constant_(self.learnable_bias, number)

    def current_bias(self) -> float | Tensor:
        """The bias that the next call uses, with gradient if it is learnable."""
        if self._bias_of_call is not None:
            return self._bias_of_call
        learnable = self.learnable_bias
        if learnable is None:
            return self._bias
        return learnable.to(torch.promote_types(learnable.dtype, torch.float32))

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits to which the bias has been added."""
        del temperature
        return Sigmoid()

    def forward(self, *views: Tensor, bias: Bias | None = None, **options: Any) -> Tensor:
        """Compute the loss of two views; ``bias`` is used for this call instead of the own one."""
        with self._biased(bias):
            return super().forward(*views, **options)

    def in_batch(self, *pairs: Tensor, bias: Bias | None = None, **options: Any) -> Tensor:
        """Compute the loss of pairs; see :meth:`forward` for ``bias``."""
        with self._biased(bias):
            return super().in_batch(*pairs, **options)

    def sampled(self, *rows: Tensor, bias: Bias | None = None, **options: Any) -> Tensor:
        """Compute the loss with drawn candidates; see :meth:`forward` for ``bias``."""
        with self._biased(bias):
            return super().sampled(*rows, **options)

    def from_logits(
        self, positive: Tensor, unlabeled: Tensor, *, bias: Bias | None = None, **options: Any
    ) -> Tensor:
        """Compute the loss from logits without the bias; see :meth:`forward` for ``bias``."""
        with self._biased(bias):
            added = self.current_bias()

        def biased(logits: Tensor) -> Tensor:
            try:
                check_floating("logits", logits)
            except (TypeError, ValueError):
                return logits  # to be refused by name
            return logits.to(torch.promote_types(logits.dtype, torch.float32)) + added

        return super().from_logits(biased(positive), biased(unlabeled), **options)

    @contextmanager
    def _biased(self, bias: Bias | None) -> Iterator[None]:
        """Use another bias inside, if one is given."""
        if isinstance(bias, Tensor):
            check_floating("bias", bias)
            check_shape("bias", bias, ())
        elif bias is not None:
            bias = check_finite_number("bias", bias)
        self._bias_of_call = bias
        try:
            yield
        finally:
            self._bias_of_call = None

    def _losses_of(self, batch: Batch, temperature: float | Tensor) -> Float[Tensor, " pairs"]:
        """Compute the losses with the bias in the embeddings."""
        # (a . c + t b * 1) / t = s + b, in every engine, with the right gradients.
        anchors = batch.anchors.embeddings
        scaled = torch.as_tensor(temperature * self.current_bias(), device=anchors.device)
        one = anchors.new_ones(())
        biased = batch.corrected(temperature)
        biased = biased.with_offsets(scaled, one, [one] * len(batch.columns))
        return super()._losses_of(biased, temperature)

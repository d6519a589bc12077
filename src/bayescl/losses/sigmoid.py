"""The sigmoid losses as modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_finite_number, check_floating, check_shape
from bayescl.engines import ContrastiveBatch, Layout
from bayescl.functional.objective import Objective, as_data
from bayescl.functional.sigmoid import Sigmoid, check_relief
from bayescl.losses import layouts
from bayescl.losses.base import ContrastiveLoss
from bayescl.losses.bayesian import BayesianContrastiveLoss
from bayescl.losses.gathering import Gathering
from bayescl.losses.hyperparameters import Hyperparameter, LearnableTemperature
from bayescl.losses.latent import LatentClassContrastiveLoss


class SigmoidContrastiveLoss(ContrastiveLoss):
    r"""The loss of SigLIP: whether two rows are a pair is asked of every pair by itself.

    Without a softmax, an anchor's positive does not compete with its candidates:

    .. math::
        \log\big(1 + e^{-s^+ - b}\big) + \sum_j \log\big(1 + e^{s_j + b}\big).

    The mean over anchors of :meth:`in_batch` is the loss of the paper; ``both_directions`` adds
    nothing. Give the optimizer ``loss.parameters()``, too, unless temperature and bias are fixed.
    For small batches, the log of one over the batch size is a good start of the bias.

    With ``gather=True`` and without ``engine="dense"``, candidates of other processes come and go
    in rounds, one process's at a time; no process holds those of all.

    Args:
        bias: added to every logit: a number, which stays fixed, or a scalar ``nn.Parameter``.
            Default: a parameter that starts at -10.
        **options: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`. The
            default temperature is a :class:`~bayescl.losses.LearnableTemperature` that starts at
            0.1. The fused engine cannot compute this loss.

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
    can_be_fused = False

    def __init__(self, *, bias: float | nn.Parameter | None = None, **options: Any) -> None:
        for name in ("aim", "attraction", "denominators"):  # of the losses with a softmax
            if name in options:
                raise TypeError(f"{name} is not an argument of {type(self).__name__}")
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

    @contextmanager
    def biased(self, bias: float | Float[Tensor, ""]) -> Iterator[None]:
        """Use another bias, a number or a scalar tensor with gradient, for the calls inside.

        Raises:
            ValueError: if it is not one number.

        Example:
            >>> loss = SigmoidContrastiveLoss(temperature=0.1)
            >>> with loss.biased(-5.0):
            ...     loss.in_batch(torch.eye(3), torch.eye(3))
            tensor(0.0201)
        """
        if isinstance(bias, Tensor):
            check_floating("bias", bias)
            check_shape("bias", bias, ())
        self._bias_of_call = bias if isinstance(bias, Tensor) else check_finite_number("bias", bias)
        try:
            yield
        finally:
            self._bias_of_call = None

    def objective_in(self, layout: Layout, temperature: float | Tensor) -> Sigmoid:
        """Return the objective on logits to which the bias has been added."""
        del layout, temperature
        return Sigmoid()

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits without the bias."""
        bias, biased = self.current_bias(), self.objective_in("logits", temperature)

        def objective(
            positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None
        ) -> Tensor:
            return biased(positive + bias, unlabeled + bias, valid=valid)

        return objective

    def _losses_of(
        self, gathering: Gathering, batches: Sequence[ContrastiveBatch], temperature: float | Tensor
    ) -> Float[Tensor, "*anchors"]:
        """Compute the losses with the bias in the embeddings, in rounds where that can be."""
        adds_up = self.objective_in("in_batch", temperature).adds_up
        gathering = replace(gathering, in_rounds=adds_up and self.engine != "dense")
        # (a . c + t b * 1) / t = s + b, in every engine, with the right gradients.
        anchors = batches[0].anchors
        scaled = torch.as_tensor(temperature * self.current_bias(), device=anchors.device)
        one = anchors.new_ones(())
        corrected = [layouts.corrected(batch, temperature) for batch in batches]
        biased = [layouts.with_coordinate(batch, scaled, one, one) for batch in corrected]
        return super()._losses_of(gathering, biased, temperature)


class BayesianSigmoidLoss(SigmoidContrastiveLoss, BayesianContrastiveLoss):
    """The sigmoid loss with every negative weighted by how likely it is a (hard) true negative.

    The weights are those of :class:`~bayescl.losses.BayesianContrastiveLoss`, scaled to mean 1. At
    ``alpha = beta = 0.5`` it is :class:`SigmoidContrastiveLoss`.

    Args:
        bias: as in :class:`SigmoidContrastiveLoss`.
        **options: ``tau_plus``, ``alpha``, ``beta``, ``num_classes``, ``ranks`` and ``bins`` of
            :class:`~bayescl.losses.BayesianContrastiveLoss`, and what every loss takes.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = BayesianSigmoidLoss(num_classes=10, temperature=0.1, bias=-10.0)
        >>> view_1 = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> loss.in_batch(view_1, view_1)
        tensor(0.7853)

    See Also:
        :func:`bayescl.functional.sigmoid_loss`: the same on logits.
    """

    hyperparameters = ("bias", *BayesianContrastiveLoss.hyperparameters)

    def objective_in(self, layout: Layout, temperature: float | Tensor) -> Sigmoid:
        """Return the objective on logits to which the bias has been added."""
        del layout
        if self.alpha == self.beta == 0.5:  # all weigh the same
            return Sigmoid()
        return Sigmoid(as_data(BayesianContrastiveLoss.objective(self, temperature)))


class LatentClassSigmoidLoss(SigmoidContrastiveLoss, LatentClassContrastiveLoss):
    r"""The sigmoid loss in which likely members of the anchor's class weigh less as negatives.

    The posterior :math:`P` that two rows share a class is that of
    :class:`~bayescl.losses.LatentClassContrastiveLoss`, found without labels and believed as far as
    it is trusted; ``trust``, ``explain()``, ``same_class()`` and ``labels=`` are the same. A
    candidate weighs :math:`1 - \rho P`, and nothing attracts but the anchor's own positive. With a
    ``trust`` of 0 it is :class:`SigmoidContrastiveLoss`.

    Args:
        relief: share :math:`\rho` of its weight that a sure member of the anchor's class loses, in
            [0, 1].
        bias: as in :class:`SigmoidContrastiveLoss`.
        **options: ``num_classes``, ``tau_plus``, ``threshold``, ``memory_size`` and ``refit_every``
            of :class:`~bayescl.losses.LatentClassContrastiveLoss`, and what every loss takes.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = LatentClassSigmoidLoss(num_classes=10, temperature=0.1, bias=-10.0)
        >>> loss.in_batch(torch.eye(3), torch.eye(3)), loss.trust
        (tensor(0.6932), 0.0)

    See Also:
        :func:`bayescl.functional.sigmoid_loss`: the same on logits, with your own posteriors.
    """

    relief = Hyperparameter(check_relief)
    hyperparameters = ("bias", "tau_plus", "relief")

    def __init__(self, *, relief: float = 0.5, **options: Any) -> None:
        super().__init__(**options)
        self.relief = relief

    def objective_in(self, layout: Layout, temperature: float | Tensor) -> Sigmoid:
        """Return the objective on logits to which the bias has been added."""
        del layout, temperature
        return Sigmoid(relief=self.relief)

"""The hard-negative loss: candidates weighted by a power of their exponentiated logit."""

from __future__ import annotations

from dataclasses import dataclass

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.checks import check_non_negative
from bayescl.functional.debiased import Debiased


@dataclass(frozen=True)
class Hard(Debiased):
    """:func:`~bayescl.functional.hard_loss` at given parameters, as engines receive it."""

    concentration: float

    @property
    def powers(self) -> tuple[float, ...]:
        """The weighted sum, the sum of the weights, and the number of candidates."""
        check_non_negative("concentration", self.concentration)
        tilt = (self.concentration,) if self.concentration > 0 else ()
        return (1 + self.concentration, *tilt, 0.0)


def hard_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    tau_plus: float,
    concentration: float,
    minimum_logit: float | Float[Tensor, ""],
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The hard-negative contrastive loss, one value per anchor.

    The debiased loss with every candidate weighted by a power of its own exponential, with
    :math:`c` the concentration:

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i r_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}, \qquad
        r_i = \frac{e^{c s_i}}{\frac{1}{N}\sum_j e^{c s_j}}.

    Unlike the Bayesian weights, these depend on the values of the logits, and gradients flow
    through them.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        tau_plus: prior probability that a candidate is a positive, in [0, 1).
        concentration: exponent ``c``, at least 0 (called beta in the reference).
        minimum_logit: smallest possible logit, which sets the floor of the estimate;
            ``-1 / temperature`` for cosine similarities. Differentiated if it is a tensor.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        Non-negative losses; the debiased loss at ``concentration = 0``.

    Raises:
        ValueError: if ``tau_plus`` or ``concentration`` is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> hard_loss(positive, unlabeled, tau_plus=0.1, concentration=1.0, minimum_logit=-2.0)
        tensor([0.3759])

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021, Eq. 4.
    """
    return Hard(tau_plus, minimum_logit, concentration)(positive, unlabeled, valid=valid)

"""The latent-class loss as a module."""

from __future__ import annotations

import warnings

import torch
from typing_extensions import Unpack

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch
from bayescl.checks import check_choice, check_count, check_interval
from bayescl.functional.latent import AIMS, THRESHOLD, Aim, Latent, check_attraction
from bayescl.functional.objective import Objective
from bayescl.latent_classes.explain import Finding, Reason
from bayescl.latent_classes.fit import default_memory
from bayescl.latent_classes.memory import ClassMemory
from bayescl.latent_classes.trust import Precision
from bayescl.losses.base import ContrastiveLoss, SharedOptions, without_autocast
from bayescl.losses.gathering import Gathering
from bayescl.losses.parameters import PRIORS_WORTH_TRYING, Hyperparameter, class_prior

_RANKED_AT = 0.1  # temperature at which members are ranked, whatever that of the loss is
_MOST_REMEMBERED = 2**20
_CALLS_IN_EVAL_MODE = 10
_FITS_IN_VAIN = 100  # in a row, without trust: some 200,000 items at the default


class LatentClassContrastiveLoss(ContrastiveLoss):
    r"""InfoNCE with latent classes, found without labels and used as far as they can be trusted.

    A memory keeps the embeddings of recent items. Every few steps, coarse and fine mixtures of von
    Mises-Fisher components are fitted to it, and components that views of one item move between are
    joined. Rows that share components likely share a class, and likely members of an anchor's class
    attract. Each mixture is trusted as far as the two views of an item agree in it and as it agrees
    with the others. Nothing is trusted if the classes found are twice as large as they should be,
    or if positives are no closer than other members of a class. If ``trust`` is 0, as before the
    first fit, the loss is exactly InfoNCE. :meth:`explain` says in words what was found.

    The exact pair stays first, and its class comes next, in every layout: members of a class are
    ranked above the mean non-member, and then left alone. With ``aim="classes"`` members count as
    further positives and no longer as negatives: the exact partner is lost among them, so never use
    it for retrieval of exact pairs.

    Calls in ``train()`` mode are remembered in every layout but :meth:`from_logits`: two views of
    an item, or an anchor and its positive. Memory, fits and trust are part of ``state_dict``. With
    ``gather=True`` all processes hold the same memory and the same fits.

    Trust without labels says that there are classes, not that they are yours: where a nuisance that
    views keep (batch, speaker, device) is what clusters, name it with ``domains=``, and pass a
    handful of labels as ``audit=``, which only measure. The :attr:`precision` of attracting pairs
    among them bounds the trust from both sides as evidence grows. Where it is surely high, two
    views attract at full strength; where it is low, the loss is InfoNCE.

    Labels passed as ``labels=`` train, -1 for items without: pairs of two known labels are settled,
    and with two views they attract or repel as :class:`~bayescl.losses.SupervisedContrastiveLoss`
    has it. Labelled items also say of which class components are.

    Args:
        num_classes: approximate number of classes; half or double the true number does little harm.
            Default: estimated, between 5 and 160, by how far views and mixtures agree; then
            ``1 / tau_plus`` says what was found.
        tau_plus: prior probability that a candidate is of the anchor's class, in (0, 1), instead of
            ``num_classes``.
        aim: ``"pairs"`` or ``"classes"``.
        attraction: how strongly likely members of the anchor's class attract, in [0, 1e6].
        threshold: posterior above which a candidate attracts, in [0, 1].
        memory_size: number of items remembered. Default: 4,096, or 8,192 for more than 256 classes.
        refit_every: steps between two fits. Default: as many as bring twice the items that the last
            fit saw, or up to four times in batches below 128 items; for a memory of 1,024, every 8
            steps of 2 x 256 views and every 64 of 2 x 64.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`. The
            default temperature is 0.25.

    Raises:
        ValueError: if an argument is out of range.

    Warns:
        UserWarning: once, if there are too many classes to look for, or if nothing was trusted in a
            hundred fits.

    Example:
        >>> loss = LatentClassContrastiveLoss(num_classes=10)
        >>> view_1, view_2 = torch.eye(4), torch.eye(4)
        >>> loss(view_1, view_2), loss.trust
        (tensor(0.1043), 0.0)
        >>> value = loss(view_1, view_2, labels=torch.tensor([0, 0, 1, -1]))  # the last is unknown

    Reference:
        Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher
        Distributions", JMLR 2005, for the mixtures.

    See Also:
        :func:`bayescl.functional.latent_loss`: the same on logits, with your own posteriors.
    """

    tau_plus = Hyperparameter(
        lambda value: check_interval("tau_plus", value, 0.0, 1.0, open_low=True, open_high=True),
        *PRIORS_WORTH_TRYING,
    )
    attraction = Hyperparameter(check_attraction, 2.0, 0.5)
    hyperparameters: tuple[str, ...] = ("tau_plus", "attraction")
    uses_labels = True

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        tau_plus: float | None = None,
        aim: Aim = "pairs",
        attraction: float = 1.0,
        threshold: float = THRESHOLD,
        memory_size: int | None = None,
        refit_every: int | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        shared.setdefault("temperature", 0.25)
        super().__init__(**shared)
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.estimates_prior = tau_plus is None and num_classes is None
        check_choice("aim", aim, AIMS)
        self.aim: Aim = aim
        self.attraction = attraction
        self.threshold = check_interval("threshold", threshold, 0.0, 1.0)
        prior = None if self.estimates_prior else self.tau_plus
        size = default_memory(prior) if memory_size is None else memory_size
        if check_count("memory_size", size, 2) > _MOST_REMEMBERED:
            raise ValueError(f"memory_size must be at most {_MOST_REMEMBERED}, got {size}")
        if refit_every is not None:
            check_count("refit_every", refit_every, 1)
        self.memory = ClassMemory(size, refit_every, self.threshold)
        self._has_warned = False
        self._calls_in_eval_mode = 0

    @property
    def trust(self) -> float:
        """How far the classes found are trusted, from 0 (InfoNCE) to 1; the mean over mixtures."""
        return self.memory.trust

    @property
    def precision(self) -> Precision | None:
        """Share of attracting pairs that are of one class, on audit labels; None without."""
        return self.memory.precision

    def readings(self) -> dict[str, float]:
        """Return metrics to record after an epoch: trust, and what audit labels say of it."""
        return self.memory.metrics()

    def finding(self) -> Finding:
        """Return what :meth:`explain` says, as a reason and numbers."""
        return self.memory.explain(self._prior)

    def explain(self) -> str:
        """Say in a few sentences what was found, how far it is trusted, and why not more.

        Example:
            >>> print(LatentClassContrastiveLoss(num_classes=10).explain())
            No call in train() mode yet: nothing is remembered, and the loss is InfoNCE.
        """
        return str(self.finding())

    @property
    def _prior(self) -> float | None:
        """The prior of the next fit; None if it is estimated."""
        return None if self.estimates_prior else self.tau_plus

    def same_class(
        self, first: Float[Tensor, "rows dim"], second: Float[Tensor, "columns dim"]
    ) -> Float[Tensor, "rows columns"]:
        """Return the current posterior probability that two embeddings are of one class.

        Args:
            first: embeddings, of any length.
            second: embeddings to compare with.

        Returns:
            Values in [0, 1]; all 0 if nothing is fitted or trusted yet.

        Raises:
            ValueError: if the embeddings differ in number of coordinates from the memory's.
        """
        return self.memory.same_class(first, second)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective at a temperature."""
        scale = temperature.detach() if isinstance(temperature, Tensor) else temperature
        return Latent(self.attraction, self.threshold, self.aim, float(scale) / _RANKED_AT)

    def extra_repr(self) -> str:
        """Show every setting."""
        return f"aim={self.aim!r}, threshold={self.threshold:g}, {super().extra_repr()}"

    def with_posterior(self, batch: Batch, gathering: Gathering | None = None) -> Batch:
        """Return a batch with the posterior of its pairs, and learn from it while training."""
        if torch.compiler.is_compiling():
            # What is remembered changes with every call: traced, it would be compiled each time.
            known: Batch = torch.compiler.disable(self.with_posterior)(batch, gathering)
            return known
        # A transform's values must not outlive it.
        learns = self.training and not torch._C._are_functorch_transforms_active()
        memory = self.memory
        with without_autocast(batch.anchors.embeddings.device):
            if gathering is None or not learns:
                self._warn_if_never_trained(batch)
                return memory.posterior(batch, unit=self.normalize)
            with gathering.synchronized_errors():
                informed = memory.posterior(batch, unit=self.normalize)
            gather = gathering.rows_of_all if gathering.active else None
            memory.update(batch, tau_plus=self._prior, gather=gather)
        if self.estimates_prior and memory.classes is not None:
            self.tau_plus = memory.prior
        if not self._has_warned:
            self._warn_if_in_vain()
        return informed

    def _warn_if_never_trained(self, batch: Batch) -> None:
        """Warn once if a loss that never learned is used for training."""
        if self.memory.calls or not batch.anchors.embeddings.requires_grad:
            return
        self._calls_in_eval_mode += 1
        if self._calls_in_eval_mode == _CALLS_IN_EVAL_MODE:
            warnings.warn(
                f"{_CALLS_IN_EVAL_MODE} calls with gradient in eval() mode: nothing is remembered, "
                "so the loss is InfoNCE. Call loss.train() to look for classes",
                stacklevel=6,
            )

    def _warn_if_in_vain(self) -> None:
        """Warn once if no classes can be looked for, or if fits cost time and earn no trust."""
        memory = self.memory
        if memory.classes is None:
            if self.estimates_prior or self.finding().reason is not Reason.TOO_MANY_CLASSES:
                return
            words = self.explain()
        elif memory.fits_without_trust >= _FITS_IN_VAIN:
            words = (
                f"nothing was trusted in {memory.fits_without_trust} fits of latent classes, so "
                f"the loss is InfoNCE, at several times its cost. {self.explain()}"
            )
        else:
            return
        self._has_warned = True
        warnings.warn(words, stacklevel=2)

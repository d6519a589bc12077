"""Ranking losses for sentence-transformers: one line instead of ``MultipleNegativesRankingLoss``.

They work wherever that library takes a loss: in its trainer, under ``MatryoshkaLoss``, with its
prompts and samplers, on several devices. A text that occurs twice in a batch is never its own
negative. Tested with sentence-transformers 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Tensor
from bayescl.batch import Rows
from bayescl.checks import check_choice, check_count, check_shape, missing
from bayescl.integrations._texts import text_keys, token_rows
from bayescl.losses import ContrastiveLoss, Margin

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.losses import CachedLossMixin, has_static_embedding_input
    from sentence_transformers.base.losses.merged_forward import embed_columns
    from transformers import TrainerCallback
except ImportError as error:
    raise missing("sentence-transformers 6 or newer", "sentence-transformers", error) from error

Features = dict[str, Any]
STATE_FILE = "bayescl_loss.pt"
"""Name of the file with the losses' state beside a checkpoint."""

Known = dict[str, Any]
"""Arguments of a loss's ``in_batch``, besides embeddings."""


class ContrastiveRankingLoss(nn.Module):
    """A loss of this package, applied to the columns of a batch of texts.

    The first column holds anchors, the second their positives; all further columns are hard
    negatives. An anchor's candidates are the positives of the other rows and all hard negatives,
    as in ``MultipleNegativesRankingLoss``.

    Args:
        model: the model to train.
        loss: any loss of this package, with ``reduction="mean"`` or ``"sum"``; its temperature is
            one over the scale of ``MultipleNegativesRankingLoss``. With ``gather=True`` candidates
            come from all devices; no effect in a single process.
        both_directions: whether every positive is also an anchor against all anchors. Hard
            negatives do not take part in the second direction.
        duplicates: with ``"mask"``, equal texts are never each other's negatives: a candidate with
            the anchor's text, its positive's text or the same anchor does not count. Texts are
            compared by their tokens, after truncation and prompts. With ``"keep"``, all count.
        margin: leaves out candidates that score like the positive; see :class:`~bayescl.Margin`.
            Hard negatives are exempt unless the margin says otherwise.
        teacher: another model, whose embeddings of the texts are passed as the ``teacher`` of both
            sides. It reads decoded tokens. With ``Margin(..., by_teacher=True)`` the margin uses
            its similarities. Default: no teacher.
        label_column: what the data set's label column holds of each pair: ``"labels"``,
            classes with -1 where unknown, or ``"domains"``. Both for a column of lists. Default:
            the column is not used.

    Raises:
        ValueError: if ``loss`` returns more than one value, or another argument is out of range.

    Example:
        >>> from bayescl import BayesianContrastiveLoss
        >>> from sentence_transformers.sentence_transformer.modules import StaticEmbedding
        >>> from tokenizers import Tokenizer, models
        >>> words = Tokenizer(models.WordLevel({"?": 0, "cat": 1, "dog": 2, "cow": 3}, "?"))
        >>> model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)])
        >>> loss = ContrastiveRankingLoss(model, BayesianContrastiveLoss(temperature=0.05))
        >>> columns = [model.preprocess(texts) for texts in (["cat", "dog"], ["dog", "cow"])]
        >>> value = loss(columns)  # cow is a negative of cat, but dog is none of itself

    See Also:
        :class:`CachedContrastiveRankingLoss`: large batches in the memory of small ones.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: ContrastiveLoss,
        both_directions: bool = False,
        duplicates: Literal["mask", "keep"] = "mask",
        *,
        margin: Margin | None = None,
        teacher: SentenceTransformer | None = None,
        label_column: str | Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_choice("duplicates", duplicates, ("mask", "keep"))
        if loss.reduction == "none":
            raise ValueError("loss must have reduction='mean' or 'sum', got 'none'")
        if loss.needs_groups or loss.needs_labels:
            raise ValueError(f"loss must not need labels of texts, got {type(loss).__name__}")
        self.model = model
        self.loss = loss
        self.both_directions = both_directions
        self.duplicates = duplicates
        self.teacher = None if teacher is None else teacher.requires_grad_(False).eval()
        self.margin = margin
        self.label_column = (label_column,) if isinstance(label_column, str) else label_column
        for name in self.label_column:
            check_choice("label_column", name, ("labels", "domains"))
        self.gather_across_devices = loss.gather

    def forward(
        self, sentence_features: Iterable[Features], labels: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch.

        Args:
            sentence_features: the tokenized columns: anchors, positives, hard negatives.
            labels: the data set's label column; see ``label_column``.

        Raises:
            ValueError: if there are fewer than two columns.
        """
        columns = list(sentence_features)
        many = distributed.is_initialized() and distributed.world_size() > 1
        self.loss.gather = self.gather_across_devices and many
        return self._embedded(columns, self._known(columns, labels))

    def _embedded(self, columns: Sequence[Features], known: list[Known]) -> Float[Tensor, ""]:
        return self._value(embed_columns(self.model, columns), known)

    def _known(self, columns: Sequence[Features], labels: Tensor | None) -> list[Known]:
        """Say what is known of a batch in each direction, before the model changes its features."""
        if len(columns) < 2:
            raise ValueError(f"a batch must hold at least 2 columns of texts, got {len(columns)}")
        keys: list[Tensor] = []
        teachers: list[Tensor] = []
        if self.duplicates == "mask":
            first = distributed.rank() * len(columns) if distributed.is_initialized() else 0
            keys = [text_keys(column, first + place) for place, column in enumerate(columns)]
        if self.teacher is not None:
            texts = [_decoded(column, self.model) for column in columns]
            options = {"convert_to_tensor": True, "show_progress_bar": False}
            teachers = [self.teacher.encode(of_column, **options) for of_column in texts]
        shared = {**self._of_pairs(labels), "margin": self.margin}
        sides = [(keys, teachers), (keys[1::-1], teachers[1::-1])]
        return [
            {**shared, **self._of_texts(of_keys), "teachers": of_teacher}
            for of_keys, of_teacher in sides[: 1 + self.both_directions]
        ]

    def _of_pairs(self, column: Tensor | None) -> Known:
        """What the label column says of the pairs."""
        names = self.label_column
        if column is None or not names:
            return {}
        if len(names) > 1:
            check_shape("label", column, ("pairs", len(names)))
        return dict(zip(names, [column] if len(names) == 1 else column.unbind(1), strict=True))

    def _of_texts(self, keys: list[Tensor]) -> Known:
        """Which texts are equal."""
        known: Known = {}
        if keys:
            anchors, positives, *rest = keys
            extra_keys = torch.cat([positives[:0], *rest])
            known["groups"] = torch.stack([anchors, positives], dim=1)
            if rest:
                known["extra_groups"] = torch.stack([extra_keys, extra_keys], dim=1)
            # Groups compare anchors with anchors, and positives with positives.
            columns = [positives, extra_keys] if rest else [positives]
            if self.loss.gather:
                columns = [distributed.gather(part) for part in columns]
            candidates = torch.cat(columns)
            if bool(torch.isin(anchors, candidates).any()):
                known["valid"] = candidates != anchors[:, None]
        return known

    def _value(self, embeddings: Sequence[Tensor], known: list[Known]) -> Float[Tensor, ""]:
        """Compute the loss from the embeddings of all columns."""
        self.loss.train(self.model.training)  # the trainer switches the mode of the model alone
        anchors, positives, *rest = embeddings
        gather = self.loss.gather
        alone = len(anchors) == 1 and not gather
        if alone and not rest:
            return (anchors * positives).sum() * 0.0  # the last batch of an epoch may be one pair
        # Without hard negatives a lone pair has no other candidate. With them, it has in one
        # direction. A mask on several devices is of one direction only.
        both = self.both_directions and not alone
        value = self._of_direction(embeddings, known[0], both_directions=both and not gather)
        if both and gather:
            value = value + self._of_direction([positives, anchors], known[1])
        halved = self.loss.reduction == "mean" and self.both_directions and (gather or alone)
        return value / 2 if halved else value

    def _of_direction(
        self, embeddings: Sequence[Tensor], known: Known, **options: Any
    ) -> Float[Tensor, ""]:
        """Compute the loss of one call, whose first column holds the anchors."""
        known = dict(known)
        extra_keys = known.pop("extra_groups", None)
        teachers = known.pop("teachers", None) or [None] * len(embeddings)
        anchors, positives = map(_with_teacher, embeddings[:2], teachers[:2])
        extra = None
        if len(embeddings) > 2:
            of_extra = None if teachers[2] is None else torch.cat(teachers[2:])
            extra = replace(
                _with_teacher(torch.cat([*embeddings[2:]]), of_extra), groups=extra_keys
            )
        value: Tensor = self.loss.in_batch(anchors, positives, extra=extra, **options, **known)
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        shown = ("both_directions", "duplicates", "gather_across_devices")
        return {
            "loss": f"{type(self.loss).__name__}({self.loss.extra_repr()})",
            "teacher": None if self.teacher is None else type(self.teacher).__name__,
            "margin": None if self.margin is None else str(self.margin),
            **{name: getattr(self, name) for name in shown},
        }


class CachedContrastiveRankingLoss(CachedLossMixin, ContrastiveRankingLoss):  # type: ignore[misc]
    """The same loss in the memory of a small batch: texts are encoded twice, a few at a time.

    It uses the cached engine of sentence-transformers, so it can be wrapped like the library's own
    cached losses. Models that start with a ``StaticEmbedding`` cannot be split and raise an error.

    Args:
        model: the model to train.
        loss: any loss of this package, with ``reduction="mean"`` or ``"sum"``.
        both_directions: see :class:`ContrastiveRankingLoss`, also for all other arguments.
        duplicates: ``"mask"`` or ``"keep"``.
        mini_batch_size: number of texts encoded at a time.
        mini_batch_num_tokens: number of tokens encoded at a time, instead of a number of texts.
        show_progress_bar: whether to show the progress of encoding.
        **rules: ``margin``, ``teacher`` and ``label_column``.

    Raises:
        ValueError: if an argument is out of range or the model cannot be split.

    Reference:
        Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
        RepL4NLP 2021.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: ContrastiveLoss,
        both_directions: bool = False,
        duplicates: Literal["mask", "keep"] = "mask",
        *,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **rules: Any,
    ) -> None:
        super().__init__(model, loss, both_directions, duplicates, **rules)
        if has_static_embedding_input(model):
            raise ValueError(
                "model must not start with a StaticEmbedding, whose batches cannot be split: "
                "use ContrastiveRankingLoss"
            )
        self.mini_batch_size = check_count("mini_batch_size", mini_batch_size, 1)
        if mini_batch_num_tokens is not None:
            check_count("mini_batch_num_tokens", mini_batch_num_tokens, 1)
        self.mini_batch_num_tokens = mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar

    def _embedded(self, columns: Sequence[Features], known: list[Known]) -> Float[Tensor, ""]:
        """Compute the loss; the gradients of the model appear in the backward pass."""
        trained = [parameter for parameter in self.loss.parameters() if parameter.requires_grad]
        earlier = [parameter.grad for parameter in trained]
        self.loss.zero_grad()
        # What is known is passed as labels, which reach calculate_loss under wrappers, too.
        value: Tensor = CachedLossMixin.forward_cached(self, columns, known)
        for parameter, before in zip(trained, earlier, strict=True):
            gradient, parameter.grad = parameter.grad, before
            if gradient is not None:  # becomes that of a term of 0, scaled as the model's are
                value = value + ((parameter - parameter.detach()) * gradient).sum()
        return value

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False
    ) -> Float[Tensor, ""]:
        """Compute the loss from embeddings in mini-batches, and their gradients if asked."""
        embeddings = [torch.cat(column) for column in reps]
        value = self._value(embeddings, [{}, {}] if labels is None else labels)
        if with_backward:
            value.backward()
            value = value.detach()
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        shown = ("mini_batch_size", "mini_batch_num_tokens")
        return {**super().get_config_dict(), **{name: getattr(self, name) for name in shown}}


def _with_teacher(embeddings: Tensor, teacher: Tensor | None) -> Rows:
    return Rows(embeddings, teacher=None if teacher is None else teacher.to(embeddings.device))


def _decoded(features: Features, model: Any) -> list[str]:
    """The texts of a column, from its tokens; the model may be wrapped or compiled."""
    model = getattr(model, "module", model)
    tokenizer = getattr(model, "_orig_mod", model).tokenizer
    tokens, lengths = token_rows(features)
    decode = getattr(tokenizer, "batch_decode", None) or tokenizer.decode_batch
    rows = [row.tolist() for row in tokens.split(lengths.tolist())]
    texts: list[str] = decode(rows, skip_special_tokens=True)
    return texts


class LossStateCallback(TrainerCallback):  # type: ignore[misc]
    """Save the state of a loss beside every checkpoint, and restore it on resuming.

    The trainer saves only the model: a learnable temperature and scheduled hyper-parameters would
    start over when training resumes.

    Args:
        loss: the trainer's loss, wrapped or not, or its mapping of losses by data set.

    Raises:
        FileNotFoundError: when training resumes from a checkpoint that was saved without this
            callback.

    Example:
        ::

            trainer = SentenceTransformerTrainer(
                model=model, loss=loss, callbacks=[LossStateCallback(loss)], ...
            )
            trainer.train(resume_from_checkpoint=True)
    """

    def __init__(self, loss: nn.Module | Mapping[str, nn.Module]) -> None:
        self._losses = dict(loss) if isinstance(loss, Mapping) else {"loss": loss}

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the state of all losses into the checkpoint that was just saved."""
        del control
        if state.is_world_process_zero:
            path = _state_file(args, state)
            unfinished = path.with_suffix(".unfinished")
            torch.save({name: module.state_dict() for name, module in self._stateful()}, unfinished)
            unfinished.replace(path)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Restore the state when training continues; nothing in the file is executed."""
        del control
        if state.global_step == 0:
            return
        path = _state_file(args, state)
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: was the checkpoint saved with LossStateCallback?"
            )
        states = torch.load(path, map_location="cpu", weights_only=True)
        for name, module in self._stateful():
            module.load_state_dict(states[name])

    def _stateful(self) -> Iterator[tuple[str, nn.Module]]:
        """The losses of this package, by their path in what wraps them."""
        for first, loss in self._losses.items():
            for name, module in loss.named_modules(prefix=first):
                if isinstance(module, ContrastiveLoss):
                    yield name, module


def _state_file(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE_FILE

"""Ranking losses for sentence-transformers that replace ``MultipleNegativesRankingLoss``.

They work with the library's trainer, ``MatryoshkaLoss``, prompts, samplers and several devices. A
text that occurs twice in a batch is not its own negative. Tested with sentence-transformers 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Literal

import torch
from torch import nn

from bayescl import distributed
from bayescl._checks import check_choice, check_count, missing
from bayescl._types import Float, Tensor
from bayescl.batch import Rows
from bayescl.integrations._texts import decoded_texts, text_groups, text_keys
from bayescl.losses import ContrastiveLoss, Margin

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.losses import CachedLossMixin, has_static_embedding_input
    from sentence_transformers.base.losses.merged_forward import embed_columns
except ImportError as error:
    raise missing("sentence-transformers 6 or newer", "sentence-transformers", error) from error

Features = dict[str, Any]
Metadata = dict[str, Any]
"""``groups`` and ``teachers`` of anchors, positives and hard negatives, and loss arguments."""


class ContrastiveRankingLoss(nn.Module):
    """Loss of this package on a batch of texts.

    The first column holds anchors, the second their positives; all further columns are hard
    negatives. An anchor's candidates are the positives of the other rows and all hard negatives,
    as in ``MultipleNegativesRankingLoss``.

    Args:
        model: Model to train.
        loss: Any loss of this package, with ``reduction="mean"`` or ``"sum"``. Its temperature is
            one over the scale of ``MultipleNegativesRankingLoss``. With ``gather=True`` candidates
            come from all devices; this has no effect in a single process.
        both_directions: Whether every positive is also an anchor against all anchors. Hard
            negatives do not take part in the second direction. Default: False.
        duplicates: With ``"mask"``, equal texts are never each other's negatives: a candidate with
            the anchor's text, its positive's text or the same anchor does not count. Texts are
            compared by their tokens, after truncation and prompts. With ``"keep"``, all count.
            Default: ``"mask"``.
        teacher: Source of soft targets. ``"documents"`` takes the model's own embeddings of the
            positives, without gradient and without another forward pass. ``"label"`` takes the data
            set's label column, which then holds an embedding of each pair's document by any model.
            Another model encodes the decoded texts itself. Candidates with similar documents share
            ``1 - loss.positive_share`` of the target. Hard negatives get a share only with
            ``margin.extra``. Default: no soft targets.
        margin: Rule that excludes candidates that score like the positive; see
            :class:`~bayescl.Margin`. Hard negatives are exempt unless ``margin.extra`` is set.
        label_column: Content of the data set's label column: ``"labels"`` for classes, with -1
            where unknown, or ``"domains"``. Default: the column is not used.

    Raises:
        ValueError: if ``loss`` returns more than one value or needs labels that are not given, or
            another argument is out of range.

    Example:
        >>> from bayescl import InfoNCELoss
        >>> from sentence_transformers.sentence_transformer.modules import StaticEmbedding
        >>> from tokenizers import Tokenizer, models
        >>> words = Tokenizer(models.WordLevel({"?": 0, "cat": 1, "dog": 2, "cow": 3}, "?"))
        >>> model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)])
        >>> loss = InfoNCELoss(temperature=0.05, positive_share=0.8)
        >>> loss = ContrastiveRankingLoss(model, loss, teacher="documents")
        >>> columns = [model.preprocess(texts) for texts in (["cat", "dog"], ["dog", "cow"])]
        >>> value = loss(columns)  # cow is a negative of cat; dog is not a negative of itself

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
        teacher: Literal["documents", "label"] | SentenceTransformer | None = None,
        margin: Margin | None = None,
        label_column: Literal["labels", "domains"] | None = None,
    ) -> None:
        super().__init__()
        check_choice("duplicates", duplicates, ("mask", "keep"))
        if isinstance(teacher, str):
            check_choice("teacher", teacher, ("documents", "label"))
        if label_column is not None:
            check_choice("label_column", label_column, ("labels", "domains"))
            if teacher == "label":
                raise ValueError(f"teacher must not be 'label' with label_column={label_column!r}")
        if loss.reduction == "none":
            raise ValueError("loss must have reduction='mean' or 'sum', got 'none'")
        if loss.needs_groups or (loss.needs_labels and label_column != "labels"):
            raise ValueError(f"loss must not require labels, got {type(loss).__name__}")
        self.model = model
        self.loss = loss
        self.both_directions = both_directions
        self.duplicates = duplicates
        self.teacher: Any = teacher
        if isinstance(teacher, nn.Module):
            teacher.requires_grad_(False).eval()
        self.margin = margin
        # Number of blocks with a teacher, of anchors, positives and hard negatives.
        self._taught = 3 if margin is not None and margin.extra else 2
        self.label_column = label_column
        self.gather_across_devices = loss.gather

    def forward(
        self, sentence_features: Iterable[Features], labels: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch.

        Args:
            sentence_features: Tokenized columns: anchors, positives, hard negatives.
            labels: Label column of the data set; see ``teacher`` and ``label_column``.

        Raises:
            ValueError: if there are fewer than two columns or the label column is missing or has
                the wrong shape.
        """
        columns = list(sentence_features)
        if len(columns) < 2:
            raise ValueError(f"a batch must hold at least 2 columns of texts, got {len(columns)}")
        many = distributed.is_initialized() and distributed.world_size() > 1
        self.loss.gather = self.gather_across_devices and many
        # The model overwrites its features, so they are read first.
        return self._embedded(columns, self._metadata(columns, labels))

    def _embedded(self, columns: Sequence[Features], metadata: Metadata) -> Float[Tensor, ""]:
        return self._value(embed_columns(self.model, columns), metadata)

    def _metadata(self, columns: Sequence[Features], labels: Tensor | None) -> Metadata:
        """Read the metadata of a batch from its texts and its label column."""
        metadata: Metadata = {"margin": self.margin, "groups": [], "teachers": []}
        if self.duplicates == "mask":
            first = distributed.rank() * len(columns) if distributed.is_initialized() else 0
            keys = [text_keys(column, first + place) for place, column in enumerate(columns)]
            metadata["groups"] = text_groups(*_blocks(keys))
        if self.teacher == "label":
            if labels is None:
                raise ValueError("teacher='label' needs a label column of embeddings, got none")
            metadata["teachers"] = [None, labels]
        elif self.teacher not in (None, "documents"):
            texts = [decoded_texts(column, self.model) for column in columns]
            options = {"convert_to_tensor": True, "show_progress_bar": False}
            encoded = [self.teacher.encode(column, **options) for column in texts]
            metadata["teachers"] = _blocks(encoded)[: self._taught]
        if self.label_column is not None:
            metadata[self.label_column] = labels
        return metadata

    def _value(self, embeddings: Sequence[Tensor], metadata: Metadata) -> Float[Tensor, ""]:
        """Compute the loss from the embeddings of all columns."""
        self.loss.train(self.model.training)  # the trainer only switches the mode of the model
        is_alone = len(embeddings[0]) == 1 and not self.loss.gather
        if is_alone and len(embeddings) == 2:  # the last batch of an epoch may be one pair
            return (embeddings[0] * embeddings[1]).sum() * 0.0
        blocks, known = _blocks(embeddings), dict(metadata)
        groups, teachers = known.pop("groups"), known.pop("teachers")
        if self.teacher == "documents":  # anchors use the teacher of their positives
            teachers = [None, *(block.detach() for block in blocks[1 : self._taught])]
        rows = [
            Rows(block, groups=keys, teacher=teacher)
            for block, keys, teacher in zip_longest(blocks, groups, teachers)
        ]
        # A single pair has hard negatives as candidates, in the first direction only.
        known["both_directions"] = self.both_directions and not is_alone
        extra = rows[2] if len(rows) > 2 else None
        value: Tensor = self.loss.in_batch(rows[0], rows[1], extra=extra, **known)
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        is_model = isinstance(self.teacher, nn.Module)
        return {
            "loss": f"{type(self.loss).__name__}({self.loss.extra_repr()})",
            "teacher": type(self.teacher).__name__ if is_model else self.teacher,
            "margin": None if self.margin is None else str(self.margin),
            "both_directions": self.both_directions,
            "duplicates": self.duplicates,
            "gather_across_devices": self.gather_across_devices,
        }


class CachedContrastiveRankingLoss(CachedLossMixin, ContrastiveRankingLoss):  # type: ignore[misc]
    """Variant with the memory of a small batch: texts are encoded twice, a few at a time.

    The result is the same as with :class:`ContrastiveRankingLoss`. This class uses the gradient
    cache of sentence-transformers and can be wrapped like the library's cached losses.

    Args:
        model: Model to train.
        loss: As in :class:`ContrastiveRankingLoss`.
        mini_batch_size: Number of texts encoded at a time. Default: 32.
        mini_batch_num_tokens: Number of tokens encoded at a time, instead of a number of texts.
            Default: not used.
        show_progress_bar: Whether to show the progress of encoding. Default: False.
        **options: Further arguments of :class:`ContrastiveRankingLoss`.

    Raises:
        ValueError: if an argument is out of range, or the model starts with a ``StaticEmbedding``.

    Reference:
        Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
        RepL4NLP 2021.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: ContrastiveLoss,
        *,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, loss, **options)
        if has_static_embedding_input(model):
            raise ValueError("model must not start with a StaticEmbedding, which cannot be split")
        self.mini_batch_size = check_count("mini_batch_size", mini_batch_size, 1)
        if mini_batch_num_tokens is not None:
            check_count("mini_batch_num_tokens", mini_batch_num_tokens, 1)
        self.mini_batch_num_tokens = mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar

    def _embedded(self, columns: Sequence[Features], metadata: Metadata) -> Float[Tensor, ""]:
        """Compute the loss; the gradients of the model appear in the backward pass."""
        trained = [parameter for parameter in self.loss.parameters() if parameter.requires_grad]
        earlier = [parameter.grad for parameter in trained]
        self.loss.zero_grad()
        # Metadata is passed as labels, which also reach calculate_loss under wrappers.
        value: Tensor = CachedLossMixin.forward_cached(self, columns, metadata)
        for parameter, before in zip(trained, earlier, strict=True):
            gradient, parameter.grad = parameter.grad, before
            if gradient is not None:
                # A term of value 0 carries it, which is scaled like the loss of the model.
                value = value + ((parameter - parameter.detach()) * gradient).sum()
        return value

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Metadata, *, with_backward: bool = False
    ) -> Float[Tensor, ""]:
        """Compute the loss, and optionally gradients, from embeddings in mini-batches."""
        value = self._value([torch.cat(column) for column in reps], labels)
        if with_backward:
            value.backward()
            value = value.detach()
        return value

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        shown = ("mini_batch_size", "mini_batch_num_tokens")
        return super().get_config_dict() | {name: getattr(self, name) for name in shown}


def _blocks(columns: Sequence[Tensor]) -> list[Tensor]:
    """Concatenate the columns of hard negatives, if there are any."""
    return [*columns[:2], *([torch.cat([*columns[2:]])] if len(columns) > 2 else [])]

"""Ranking losses for sentence-transformers that replace ``MultipleNegativesRankingLoss``.

They work with the library's trainer, ``MatryoshkaLoss``, prompts, samplers and several devices. A
text that occurs twice in a batch is not its own negative. Tested with sentence-transformers 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from bayescl import distributed
from bayescl._checks import check_choice, check_count, is_eager_cpu, missing
from bayescl._types import Bool, Float, Tensor
from bayescl.functional import target_probabilities
from bayescl.integrations._losses import check_type
from bayescl.integrations._ranking_rows import LABEL_COLUMNS, documents_of
from bayescl.integrations._texts import (
    decoded_texts,
    empty_length,
    is_text,
    text_groups,
    text_keys,
    text_lengths,
)
from bayescl.losses import ContrastiveLoss, InfoNCELoss, Margin
from bayescl.rows import UNKNOWN, Rows

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.losses import CachedLossMixin, has_static_embedding_input
    from sentence_transformers.base.losses.merged_forward import embed_columns
except ImportError as error:
    raise missing("sentence-transformers 6 or newer", "sentence-transformers", error) from error

if TYPE_CHECKING:
    from datasets import Dataset

Features = dict[str, Any]
Metadata = dict[str, Any]
"""``groups`` and ``teachers`` of anchors, positives and hard negatives, and loss arguments."""

_LabelField = Literal["labels", "groups", "domains"]


class ContrastiveRankingLoss(nn.Module):
    """Loss of this package on a batch of texts.

    The first column contains the anchors, the second their positives, and all further columns hard
    negatives. An anchor's candidates are the positives of the other rows and all hard negatives. By
    default, the loss equals ``MultipleNegativesRankingLoss``, except that equal texts are not
    negatives.

    Empty texts among hard negatives and further positives are ignored, so rows may have fewer
    of them. :func:`ranking_dataset` fills rows of unequal length.

    Args:
        model: Model to train.
        loss: Any loss of this package, with ``reduction="mean"`` or ``"sum"``. Its temperature is
            one over the scale of ``MultipleNegativesRankingLoss``. With ``gather=True`` candidates
            come from all devices; this has no effect in a single process. Default:
            ``InfoNCELoss(temperature=0.05)``.
        both_directions: Whether every positive is also an anchor against all anchors. Hard
            negatives do not take part in the second direction. Default: False.
        duplicates: ``"mask"`` excludes copies of the anchor, copies of its positive, and other
            positives of the same anchor from the candidates. Texts are compared by their tokens,
            after truncation and prompts. ``"keep"`` excludes none. Default: ``"mask"``.
        teacher: Source of soft targets. ``"documents"`` takes the model's own embeddings of the
            positives, without gradient and without another forward pass. ``"label"`` takes the data
            set's label column, with an embedding of each pair's document by any model. A model
            passed here encodes texts decoded from tokens. Candidates similar to the positive share
            ``1 - loss.positive_share`` of the target. Hard negatives get target probability only
            with ``margin.extra``. ``"scores"`` takes the label column as scores of the row's
            documents, ``[batch, documents]``: positives, then hard negatives, NaN for no score. The
            row's hard negatives share the target by a softmax of their scores at
            ``loss.teacher_temperature``; candidates of other rows have target probability 0. With
            ``positive_share=None``, the positives are part of that softmax. Default: no soft
            targets.
        margin: Rule that excludes candidates that score like the positive; see
            :class:`~bayescl.Margin`. Hard negatives are exempt unless ``margin.extra`` is set.
        label_column: Content of the data set's label column: ``"labels"`` for classes,
            ``"groups"`` for keys of documents that are never negatives of each other, or
            ``"domains"``; -1 where unknown. Groups may be one integer per pair, or one per positive
            and hard negative, ``[batch, documents]``. With several names, the column has one
            integer for each. Default: the column is not used.
        num_positives: Number of columns of positives. Each is a positive of its row's anchor, and
            not a candidate. Default: 1.

    Raises:
        ValueError: if ``loss`` returns more than one value or needs labels that are not given, or
            another argument is out of range.
        TypeError: if ``loss``, ``teacher`` or ``margin`` is of another type.

    Example:
        >>> from sentence_transformers.sentence_transformer.modules import StaticEmbedding
        >>> from tokenizers import Tokenizer, models
        >>> words = Tokenizer(models.WordLevel({"?": 0, "cat": 1, "dog": 2, "cow": 3}, "?"))
        >>> model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)])
        >>> loss = ContrastiveRankingLoss(model)
        >>> columns = [model.preprocess(texts) for texts in (["cat", "dog"], ["dog", "cow"])]
        >>> value = loss(columns)  # cow is a negative of cat; dog is not a negative of itself

    See Also:
        :class:`CachedContrastiveRankingLoss`: large batches in the memory of small ones.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: ContrastiveLoss | None = None,
        both_directions: bool = False,
        duplicates: Literal["mask", "keep"] = "mask",
        *,
        teacher: Literal["documents", "label", "scores"] | SentenceTransformer | None = None,
        margin: Margin | None = None,
        label_column: _LabelField | Sequence[_LabelField] | None = None,
        num_positives: int = 1,
    ) -> None:
        super().__init__()
        loss = InfoNCELoss(temperature=0.05) if loss is None else loss
        check_type("loss", loss, ContrastiveLoss, "InfoNCELoss(temperature=0.05)")
        check_choice("duplicates", duplicates, ("mask", "keep"))
        if isinstance(teacher, str):
            check_choice("teacher", teacher, ("documents", "label", "scores"))
        elif teacher is not None:
            known = '"documents", "label", "scores" or another model'
            check_type("teacher", teacher, nn.Module, known)
        if margin is not None:
            check_type("margin", margin, Margin, "Margin(absolute=0.1)")
        fields = [label_column] if isinstance(label_column, str) else list(label_column or ())
        for field in fields:
            check_choice("label_column", field, ("labels", "groups", "domains"))
        if fields and teacher in ("label", "scores"):
            raise ValueError(f"teacher must not be {teacher!r} with label_column={label_column!r}")
        if loss.reduction == "none":
            raise ValueError("loss must have reduction='mean' or 'sum', got 'none'")
        if (loss.needs_groups and "groups" not in fields) or (
            loss.needs_labels and "labels" not in fields
        ):
            needed = "groups" if loss.needs_groups else "labels"
            raise ValueError(f"{type(loss).__name__} needs label_column={needed!r}")
        self.model = model
        self.loss = loss
        self.both_directions = both_directions
        self.duplicates = duplicates
        self.teacher: Any = teacher
        if isinstance(teacher, nn.Module):
            for parameter in set(teacher.parameters()) - set(model.parameters()):
                parameter.requires_grad_(False)
        self.margin = margin
        # Number of blocks with a teacher, of anchors, positives and hard negatives.
        self._taught = 3 if margin is not None and margin.extra else 2
        self.label_column = label_column
        self._label_fields = fields
        self.num_positives = check_count("num_positives", num_positives, 1)
        self.gather_across_devices = loss.gather

    def forward(
        self, sentence_features: Iterable[Features], labels: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch.

        Args:
            sentence_features: Tokenized columns: anchors, positives, hard negatives.
            labels: Label column of the data set; see ``teacher`` and ``label_column``.

        Raises:
            ValueError: if there are too few columns or the label column is missing or has the wrong
                shape.
        """
        columns = list(sentence_features)
        if len(columns) < 1 + self.num_positives:
            raise ValueError(
                f"a batch must contain at least {1 + self.num_positives} columns of texts, "
                f"got {len(columns)}"
            )
        many = distributed.is_initialized() and distributed.world_size() > 1
        self.loss.gather = self.gather_across_devices and many
        # The model overwrites its features, so they are read first.
        return self._embedded(columns, self._metadata(columns, labels))

    def _embedded(self, columns: Sequence[Features], metadata: Metadata) -> Float[Tensor, ""]:
        return self._value(embed_columns(self.model, columns), metadata)

    def _metadata(self, columns: Sequence[Features], labels: Tensor | None) -> Metadata:
        """Read the metadata of a batch from its texts and its label column."""
        is_taught = self.teacher in ("label", "scores")
        if labels is None and (is_taught or self._label_fields):
            name = "teacher" if is_taught else "label_column"
            raise ValueError(
                f"{name}={getattr(self, name)!r} needs a label column in the data set, got none"
            )
        metadata: Metadata = {"margin": self.margin, "teachers": []}
        keys = self._text_groups(columns)
        present = self._present(columns)
        if present is not None:
            # The key 0 of the anchors excludes absent texts, and UNKNOWN excludes nothing.
            marks = [torch.where(part, UNKNOWN, 0) for part in present]
            for column, mark in zip(keys, [torch.zeros_like(marks[0]), *marks], strict=True):
                column.append(mark)
            if self.num_positives > 1:
                metadata["positive_weight"] = torch.cat(present[: self.num_positives]).float()
        if self.teacher == "scores" and labels is not None:
            metadata["target"] = self._scores_target(labels, present, len(columns) - 1)
        elif self.teacher == "label":
            metadata["teachers"] = [None, self._per_pair(labels)]
        elif not (self.teacher is None or isinstance(self.teacher, str)):
            texts = [decoded_texts(column, self.model) for column in columns]
            options = {"convert_to_tensor": True, "show_progress_bar": False}
            with _kept_modes(self.teacher):
                encoded = [self.teacher.encode(column, **options) for column in texts]
            metadata["teachers"] = self._blocks(encoded)[: self._taught]
        for field, values in self._labels(labels, len(columns)):
            if field != "groups":
                metadata[field] = self._per_pair(values)
                continue
            ids = values[:, None].expand(-1, self.num_positives) if values.ndim == 1 else values
            unknown = torch.full_like(ids[:, 0], UNKNOWN)
            documents = [*ids.unbind(dim=1), *[unknown] * len(columns)]
            for column, key in zip(keys, [ids[:, 0], *documents], strict=False):
                column.append(key)
        groups = [torch.stack(column, dim=1) for column in keys if column]
        metadata["groups"] = self._blocks(groups) if groups else []
        return metadata

    def _text_groups(self, columns: Sequence[Features]) -> list[list[Tensor]]:
        """Return keys of equal texts for each column; no keys if all texts differ."""
        if self.duplicates == "keep":
            return [[] for _ in columns]
        first = distributed.rank() * len(columns) if distributed.is_initialized() else 0
        keys = [text_keys(column, first + place) for place, column in enumerate(columns)]
        # On a GPU the comparison would synchronize; other processes may have duplicates.
        if is_eager_cpu(keys[0]) and not self.loss.gather:
            whole = torch.cat(keys)
            if len(whole.unique()) == len(whole):
                return [[] for _ in columns]
        return text_groups(keys, self.num_positives)

    def _present(self, columns: Sequence[Features]) -> list[Bool[Tensor, " batch"]] | None:
        """Return which texts of each document column are not empty; ``None`` if all are."""
        documents = columns[1:]
        if len(documents) == 1 or not all(map(is_text, documents)):
            return None
        found = [text_lengths(part) > empty_length(part, self.model) for part in documents]
        if self.num_positives == 1:
            found[0] = torch.ones_like(found[0])
        if is_eager_cpu(found[0]) and not self.loss.gather and bool(torch.stack(found).all()):
            return None
        return found

    def _scores_target(
        self, scores: Tensor, present: list[Tensor] | None, documents: int
    ) -> Float[Tensor, "batch columns"]:
        """Return the target probabilities of the hard negatives of each row, sparse."""
        if scores.ndim != 2 or scores.shape[1] != documents:
            raise ValueError(
                f"label must have shape [batch, {documents}], one score for each positive and hard "
                f"negative, got {list(scores.shape)}"
            )
        count, negatives = self.num_positives, documents - self.num_positives
        if negatives == 0:
            raise ValueError("teacher='scores' needs a column of hard negatives, got none")
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if is_eager_cpu(scores) and bool(scores.isinf().any()):
            row = int(scores.isinf().any(dim=1).nonzero()[0])
            raise ValueError(
                f"row {row} of the batch: scores must be finite or NaN, got {scores[row].tolist()}"
            )
        if present is not None:
            scores = scores.masked_fill(~torch.stack(present, dim=1), torch.nan)
        temperature, share = self.loss.teacher_temperature, self.loss.positive_share
        if temperature is None:
            temperature = float(torch.as_tensor(self.loss.current_temperature()).detach())
        logits = scores.masked_fill(scores.isnan(), -torch.inf) / temperature
        similarity = logits[:, count:]
        if share is None:
            # The positives together count as one candidate of similarity 1.
            positive = logits[:, :count].logsumexp(dim=1, keepdim=True)
            similarity = similarity - positive + 1
            similarity = similarity.masked_fill(positive == -torch.inf, -torch.inf)
        shares = target_probabilities(similarity, temperature=1.0, positive_share=share)
        batch = len(scores)
        rows = torch.arange(batch, device=scores.device)[:, None].expand(-1, negatives)
        first = torch.arange(count, documents, device=scores.device) * batch
        places = torch.stack([rows, rows + first]).flatten(1)
        shape = batch, documents * batch
        return torch.sparse_coo_tensor(
            places, shares.flatten(), shape, check_invariants=False, is_coalesced=True
        )

    def _labels(self, labels: Tensor | None, columns: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the fields of the label column."""
        fields = self._label_fields
        if labels is None or not fields:
            return
        if len(fields) > 1:
            if labels.ndim != 2 or labels.shape[1] != len(fields):
                raise ValueError(
                    f"label must have shape [batch, {len(fields)}], one integer for each of "
                    f"{', '.join(fields)}, got {list(labels.shape)}"
                )
            yield from zip(fields, labels.unbind(dim=1), strict=True)
            return
        if fields == ["groups"] and labels.ndim == 2 and labels.shape[1] != columns - 1:
            raise ValueError(
                f"label must have shape [batch] or [batch, {columns - 1}], one integer for each "
                f"document, got {list(labels.shape)}"
            )
        yield fields[0], labels

    def _per_pair(self, values: Tensor | None) -> Tensor | None:
        """Repeat values of rows for each column of positives."""
        if values is None or self.num_positives == 1:
            return values
        return torch.cat([values] * self.num_positives)

    def _blocks(self, columns: Sequence[Tensor]) -> list[Tensor]:
        """Concatenate the columns of positives, and the columns of hard negatives if any."""
        end = 1 + self.num_positives
        parts = [[columns[0]], columns[1:end], columns[end:]]
        return [part[0] if len(part) == 1 else torch.cat([*part]) for part in parts if part]

    def _value(self, embeddings: Sequence[Tensor], metadata: Metadata) -> Float[Tensor, ""]:
        """Compute the loss from the embeddings of all columns."""
        self.loss.train(self.model.training)  # the trainer only switches the mode of the model
        batch = len(embeddings[0])
        is_alone = batch == 1 and not self.loss.gather
        if is_alone and len(embeddings) == 1 + self.num_positives:
            # The last batch of an epoch may be one pair.
            return (embeddings[0] * torch.cat([*embeddings[1:]])).sum() * 0.0
        blocks, known = self._blocks(embeddings), dict(metadata)
        groups, teachers = known.pop("groups"), known.pop("teachers")
        if self.teacher == "documents":  # anchors use the teacher of their positives
            teachers = [None, *(block.detach() for block in blocks[1 : self._taught])]
        rows = [
            Rows(block, groups=keys, teacher=teacher)
            for block, keys, teacher in zip_longest(blocks, groups, teachers)
        ]
        if self.num_positives > 1:
            own = torch.arange(batch, device=blocks[0].device)
            known["anchor_of"] = own.repeat(self.num_positives)
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
        loss: ContrastiveLoss | None = None,
        *,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, loss, **options)
        if has_static_embedding_input(model):
            raise ValueError(
                "model must not start with a StaticEmbedding: its inputs cannot be split into "
                "mini-batches"
            )
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


def ranking_dataset(dataset: Dataset, *, num_positives: int = 1, scores: str = "scores") -> Dataset:
    """Return a data set with one text per cell, and check every row.

    The first column contains anchors, the next ``num_positives`` columns positives, and all further
    columns hard negatives. A cell is a text, a list of texts, or ``None``. Lists become columns,
    and rows with fewer texts are filled with empty texts, which
    :class:`ContrastiveRankingLoss` leaves out.

    Args:
        dataset: Data set with at least two columns of texts, and at most one label column.
        num_positives: Number of columns of positives in ``dataset``. Default: 1.
        scores: Column of lists with one score per document of the row, in the order of the cells.
            ``None`` and NaN mean that a document has no score. Scores of cells without a text
            may be left out. Default: ``"scores"``, as ``mine_hard_negatives`` writes.

    Returns:
        Columns ``anchor``, ``positive``, ``positive_2``, ..., ``negative``, ``negative_2``, ... and
        the label column. Lists of scores are filled with NaN. Other label columns are unchanged.

    Raises:
        ValueError: if a row has no anchor or no positive, a cell has another type, or a list of
            scores has the wrong length. The message names the row, counted from 0.

    Example:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_dict(
        ...     {"question": ["a", "b"], "answer": ["c", "d"], "wrong": [["e", "f"], None]}
        ... )
        >>> ranking_dataset(rows)[1]
        {'anchor': 'b', 'positive': 'd', 'negative': '', 'negative_2': ''}
    """
    names = dataset.column_names
    labels = [name for name in names if name in (*LABEL_COLUMNS, scores)]
    texts = [name for name in names if name not in labels]
    if len(labels) > 1:
        raise ValueError(f"dataset must have at most one label column, got {', '.join(labels)}")
    if len(texts) <= num_positives:
        raise ValueError(
            f"dataset must have at least {1 + num_positives} columns of texts, got {len(texts)}"
        )
    ends = {"positive": texts[1 : 1 + num_positives], "negative": texts[1 + num_positives :]}
    widths = {"positive": 1, "negative": 0}
    for number, row in enumerate(dataset):
        for kind, documents in documents_of(row, texts[0], ends, scores, number).items():
            widths[kind] = max(widths[kind], len(documents))

    columns = {
        kind: [kind, *(f"{kind}_{place}" for place in range(2, width + 1))][:width]
        for kind, width in widths.items()
    }

    def filled(row: Mapping[str, Any], number: int) -> dict[str, Any]:
        found, values = {"anchor": row[texts[0]]}, []
        for kind, documents in documents_of(row, texts[0], ends, scores, number).items():
            absent = [("", math.nan)] * (widths[kind] - len(documents))
            for name, (text, score) in zip(columns[kind], documents + absent, strict=True):
                found[name] = text
                values.append(score)
        return found | {name: values if name == scores else row[name] for name in labels}

    rows = dataset.map(filled, with_indices=True, remove_columns=names)
    return rows.select_columns(["anchor", *columns["positive"], *columns["negative"], *labels])


@contextmanager
def _kept_modes(model: nn.Module) -> Iterator[None]:
    """Restore the modes of a model's modules, which ``encode`` sets to evaluation."""
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode

"""Embeddings with the metadata of each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from bayescl._checks import check_keys, check_shape, check_tensor, is_eager_cpu
from bayescl._ops.similarity import unit_vectors
from bayescl._types import Float, Int, Tensor

__all__ = ["UNKNOWN", "Rows"]

UNKNOWN = -1
"""Value of a group, a domain or a label that is not known."""


@dataclass(frozen=True)
class Rows:
    """Embeddings and the metadata of each row. A field is ``None`` if it is not given.

    Pass ``Rows`` instead of a tensor where rows have metadata of their own:
    ``loss.in_batch(queries, documents, extra=Rows(hard, groups=ids))``.

    Args:
        embeddings: ``[rows, dim]``, or ``[anchors, rows, dim]`` if each anchor has its own rows.
            The other fields have the same leading axes.
        groups: Integer key per row, or several in a last axis. Rows that share a key are never
            negatives of each other. -1 belongs to no group.
        domains: Integer key per row, or several in a last axis. Only rows that agree in every key
            are candidates of each other. -1 is unknown and agrees with every key.
        labels: Class of each row, -1 for unknown; or 0 and 1 for each class in a last axis, with
            -1 or NaN in the rows that are unknown.
        log_q: Log probability with which each row is sampled.
        teacher: Embedding of each row by the teacher. Its dimension may differ from ``dim``. Zeros
            mean that the row has no teacher.

    Example:
        >>> rows = Rows(torch.zeros(3, 2), groups=torch.tensor([0, 0, 1]))
        >>> len(rows), rows[:2].groups
        (3, tensor([0, 0]))
    """

    embeddings: Float[Tensor, "*own rows dim"]
    groups: Int[Tensor, "*own_rows_keys"] | None = None
    domains: Int[Tensor, "*own_rows_keys"] | None = None
    labels: Int[Tensor, "*own rows"] | Float[Tensor, "*own rows classes"] | None = None
    log_q: Float[Tensor, "*own rows"] | None = None
    teacher: Float[Tensor, "*own rows teacher_dim"] | None = None

    def __len__(self) -> int:
        """Return the number of rows, per anchor if each anchor has its own."""
        return self.embeddings.shape[-2]

    @property
    def are_own(self) -> bool:
        """Whether each anchor has its own rows."""
        return self.embeddings.ndim == 3

    @property
    def metadata(self) -> dict[str, Tensor]:
        """The fields that are given, by name, without the embeddings."""
        given = {}
        for name, part in vars(self).items():
            if part is not None and name != "embeddings":
                given[name] = part
        return given

    def map(self, function: Callable[[Tensor], Tensor]) -> Rows:
        """Apply a function to the embeddings and to every field that is given."""
        fields = {name: function(part) for name, part in self.metadata.items()}
        return replace(self, embeddings=function(self.embeddings), **fields)

    def __getitem__(self, index: Tensor | slice) -> Rows:
        """Return some rows, or some anchors' own rows."""
        return self.map(lambda part: part[index])

    def checked(self, name: str, like: Rows | None = None) -> Rows:
        """Return the rows in canonical form: keys ``[*rows, keys]``, teacher of unit length.

        Teacher and ``log_q`` get the embeddings' precision.

        Args:
            name: Name of the rows in error messages.
            like: Rows that are compared with these. The number of keys and the teacher's dimension
                must agree. Default: no check.

        Raises:
            ValueError: if a field does not fit the embeddings.
        """
        known = self.metadata
        if not known:
            return self
        shape, device = self.embeddings.shape[:-1], self.embeddings.device
        dtype = self.embeddings.dtype
        fields: dict[str, Tensor] = {}
        for field, part in known.items():
            title = f"{name}.{field}" if name else field
            if field in ("groups", "domains"):
                other = getattr(like, field, None)
                keys = None if other is None else other.shape[-1]
                check_keys(title, part, shape, device, keys=keys)
                fields[field] = part.long().reshape(*shape, -1)
            elif field == "labels":
                fields[field] = _checked_labels(title, part, self.embeddings, like)
            elif field == "teacher":
                check_tensor(title, part, device, floating=True)
                other = getattr(like, field, None)
                dim = "dim" if other is None else other.shape[-1]
                check_shape(title, part, (*shape, dim))
                if part.numel() == 0:
                    raise ValueError(f"{title} must not be empty, got shape {list(part.shape)}")
                wide = part.detach().to(torch.promote_types(part.dtype, dtype))
                fields[field] = unit_vectors(wide).to(dtype)
            else:
                check_tensor(title, part, device, floating=True)
                check_shape(title, part, shape)
                # Logs of normalized probabilities may be above 0 by rounding.
                if field == "log_q" and is_eager_cpu(part) and bool((part > 1e-3).any()):
                    raise ValueError(f"{title} must contain logs of probabilities, at most 0")
                fields[field] = part.detach().to(dtype)
        return replace(self, **fields)

    def with_coordinate(self, values: Tensor) -> Rows:
        """Append a coordinate to the embeddings: one value per row, or one for all rows."""
        # In half precision a logarithm would have three digits.
        rows = self.embeddings
        dtype = torch.promote_types(rows.dtype, torch.float32)
        values = values.to(dtype).expand(rows.shape[:-1])[..., None]
        return replace(self, embeddings=torch.cat([rows, values], dim=-1))


def _checked_labels(title: str, labels: Tensor, embeddings: Tensor, like: Rows | None) -> Tensor:
    """Return labels as integers ``[*rows]``, or as floats ``[*rows, classes]``, -1 for unknown."""
    shape, device = embeddings.shape[:-1], embeddings.device
    check_tensor(title, labels, device)
    others = None if like is None or like.labels is None else like.labels
    is_several = labels.ndim > len(shape)
    if others is not None and others.is_floating_point() != is_several:
        raise ValueError(f"{title} and labels must both have one class per row, or both several")
    if not is_several:
        check_keys(title, labels, shape, device, keys=0)
        if is_eager_cpu(labels) and labels.numel() and int(labels.min()) < UNKNOWN:
            raise ValueError(
                f"{title} must be at least -1, which means unknown, got {labels.min():d}"
            )
        return labels.long()
    check_shape(title, labels, (*shape, "classes" if others is None else others.shape[-1]))
    if labels.is_complex():
        raise ValueError(f"{title} must contain 0 and 1, got {labels.dtype}")
    given = labels.detach().to(embeddings.dtype)
    is_unknown = (~(given >= 0)).any(dim=-1, keepdim=True)  # negative or NaN
    if is_eager_cpu(given) and not bool((is_unknown | (given == 0) | (given == 1)).all()):
        raise ValueError(
            f"{title} must contain 0 or 1 for each class, and -1 or NaN in unknown rows"
        )
    return given.masked_fill(is_unknown, UNKNOWN)


def class_similarity(
    labels: Tensor, others: Tensor
) -> Float[Tensor, "rows candidates"] | Int[Tensor, "rows candidates"]:
    """Compute the similarity of the classes of rows and of their candidates; -1 if unknown.

    Args:
        labels: ``[rows]`` integers, or ``[rows, classes]`` with 0 and 1.
        others: The same for candidates, with a leading axis of size 1 or ``rows``.

    Returns:
        1 or 0 for equal and different classes, or the Jaccard similarity of several.
    """
    if not labels.is_floating_point():
        mine = labels[:, None]
        is_known = (mine != UNKNOWN) & (others != UNKNOWN)
        return torch.where(is_known, (mine == others).long(), UNKNOWN)
    is_known = (labels[:, None, 0] != UNKNOWN) & (others[..., 0] != UNKNOWN)
    common = torch.einsum("ac,anc->an", labels, others.expand(len(labels), -1, -1))
    either = labels.sum(dim=-1)[:, None] + others.sum(dim=-1) - common
    similarity = common / either.masked_fill(either == 0, 1)  # items without any class share none
    return torch.where(is_known, similarity, UNKNOWN)

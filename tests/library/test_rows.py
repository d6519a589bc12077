"""A field added to ``Rows`` is taken, joined, gathered and passed on without any other change."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import bayescl
from bayescl import Rows
from bayescl.batch import Batch


@dataclass(frozen=True)
class Dated(Rows):
    """Rows with a new kind of metadata: the age of each row."""

    age: Tensor | None = None


class YoungCandidates(bayescl.InfoNCELoss):
    """InfoNCE with a step that reads the new field: candidates older than a limit do not count."""

    limit = 2.0

    def evaluate(self, *batches: Batch, **options: object) -> Tensor:
        """Leave old candidates out, and go on as before."""
        return super().evaluate(*map(self._young, batches), **options)

    def _young(self, batch: Batch) -> Batch:
        young = [self._is_young(block).expand(batch.num_anchors, -1) for block in batch.columns]
        return replace(batch, valid=torch.cat(young, dim=1))

    def _is_young(self, block: Rows) -> Tensor:
        if isinstance(block, Dated) and block.age is not None:
            return block.age <= self.limit
        return torch.ones(len(block), dtype=torch.bool)


def test_a_new_field_of_rows_needs_no_change_but_the_step_that_reads_it():
    queries, documents, hard = torch.randn(3, 6, 4, dtype=torch.float64)
    age = torch.tensor([1.0, 3.0, 2.0, 5.0, 0.0, 4.0], dtype=torch.float64)
    loss, plain = YoungCandidates(temperature=0.2), bayescl.InfoNCELoss(temperature=0.2)
    value = loss.in_batch(queries, documents, extra=Dated(hard, age=age), teacher=documents)
    expected = plain.in_batch(
        queries,
        documents,
        extra=hard,
        teacher=documents,
        valid=torch.cat([torch.ones(6, dtype=torch.bool), age <= 2]).expand(6, -1),
    )
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    assert not torch.equal(value, plain.in_batch(queries, documents, extra=hard, teacher=documents))

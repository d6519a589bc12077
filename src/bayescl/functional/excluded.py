"""Which columns are not candidates of which anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import is_eager_cpu


@dataclass(frozen=True)
class Excluded:
    """Columns that are not candidates of some anchors, in the cheapest form.

    Attributes:
        columns: distinct columns of each anchor, equally many for all; None to use the mask.
        mask: True where a column is not a candidate; used if ``columns`` is None.
    """

    columns: Int[Tensor, "rows excluded"] | None = None
    mask: Bool[Tensor, "rows candidates"] | None = None

    @property
    def few(self) -> int:
        """Number of excluded columns of each row, without a mask."""
        return 0 if self.columns is None else self.columns.shape[1]

    @classmethod
    def without(cls, valid: Bool[Tensor, "rows candidates"] | None) -> Excluded:
        """All but the valid columns; nothing is excluded if None is given."""
        return cls(mask=None if valid is None else ~valid)

    def counts(self, candidates: int, device: torch.device) -> Int[Tensor, "#rows"]:
        """Number of remaining candidates: one for each anchor, or one for all."""
        if self.mask is not None:
            return candidates - self.mask.sum(dim=1)
        return torch.full((1,), candidates - self.few, device=device)

    def fill_(self, values: Float[Tensor, "rows candidates"], value: float) -> None:
        """Overwrite what is excluded."""
        if self.mask is None:
            if self.columns is not None:
                values.scatter_(1, self.columns, value)
        elif values.dtype != torch.float32 or not is_eager_cpu(values):
            values.masked_fill_(self.mask, value)
        else:
            # masked_fill_ branches at every entry on the CPU, and takes up to ten times as long as
            # these three passes: (bits | m) ^ (m & ~new) is new where m has all bits set, and bits
            # where it has none.
            m = self.mask.view(torch.int8).neg().to(torch.int32)  # [rows, candidates], -1 or 0
            new = int(np.float32(value).view(np.int32))
            values.view(torch.int32).bitwise_or_(m).bitwise_xor_(m.bitwise_and_(~new))

    def of(self, rows: slice) -> Excluded:
        """The same for some of the rows."""
        return Excluded(
            None if self.columns is None else self.columns[rows],
            None if self.mask is None else self.mask[rows],
        )

"""The paper's tables on images: one file per table, and the runner that they share.

==================  =========================================================================
``paper_table``     what a table is: cells with settings, and the figures that the paper prints
``sizes``           the settings of a cell at the size of a smoke test and at the paper's
``table_runner``    train every cell of a table over several seeds, resumably
``table_markdown``  the finished table, the paper's values beside ours
``binary``          two classes, four data sets, four losses
``multiclass``      all classes, four data sets, four losses
``negatives``       the number of negatives, by way of the batch size
``hardness``        the Bayesian loss's ``beta``
``prior``           the Bayesian loss's ``tau_plus``
``runtime``         seconds per epoch with InfoNCE and with the Bayesian loss
==================  =========================================================================
"""

from __future__ import annotations

from bayescl.experiments.images.paper.binary import BINARY
from bayescl.experiments.images.paper.hardness import HARDNESS
from bayescl.experiments.images.paper.multiclass import MULTICLASS
from bayescl.experiments.images.paper.negatives import NEGATIVES
from bayescl.experiments.images.paper.prior import PRIOR
from bayescl.experiments.images.paper.runtime import RUNTIME
from bayescl.experiments.images.paper.table import PaperTable

TABLES: dict[str, PaperTable] = {
    table.name: table for table in (BINARY, MULTICLASS, NEGATIVES, HARDNESS, PRIOR, RUNTIME)
}
"""Every table by its name."""

__all__ = ["TABLES", "PaperTable"]

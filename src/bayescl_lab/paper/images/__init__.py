"""The paper's tables on images.

=========== ==============================================================================
``table``   type of a table: cells with settings, and the figures that the paper prints
``sizes``   the settings of a cell at the size of a smoke test and at the paper's
``tables``  the tables themselves
``request`` which part of a table to run, and at which size
``runner``  train every cell of a table over several seeds, resumably
=========== ==============================================================================
"""

from bayescl_lab.paper.images.table import PaperTable
from bayescl_lab.paper.images.tables import TABLES

__all__ = ["TABLES", "PaperTable"]

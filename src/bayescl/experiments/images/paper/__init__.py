"""The paper's tables on images.

==========  ==============================================================================
``table``   what a table is: cells with settings, and the figures that the paper prints
``sizes``   the settings of a cell at the size of a smoke test and at the paper's
``tables``  the tables themselves
``request`` which part of a table, at which size ``runner``  train every cell of a table over
several seeds, resumably ==========
==============================================================================
"""

from bayescl.experiments.images.paper.table import PaperTable
from bayescl.experiments.images.paper.tables import TABLES

__all__ = ["TABLES", "PaperTable"]

"""The same per-anchor losses, computed at different cost.

An engine takes a :class:`~bayescl.functional.ContrastiveBatch`, a temperature and an objective,
and returns one loss per anchor.
"""

from bayescl.engines.dense import ObjectiveAt, dense_loss

__all__ = ["ObjectiveAt", "dense_loss"]

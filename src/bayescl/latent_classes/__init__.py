"""Latent classes of embeddings: found without labels, remembered, and trusted as far as deserved.

:class:`~bayescl.latent_classes.memory.ClassMemory` keeps recent items (``memory``), fits mixtures
to them (``fit``, ``mixture``), says how likely two rows are of one class (``posterior``), how far
that is to be trusted (``trust``), and what was found, in words (``explain``).
"""

import bayescl.functional  # noqa: F401  (its names include some from here, which it imports last)

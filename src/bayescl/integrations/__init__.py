"""The losses in the shapes that other libraries expect, one library per file.

Import the file that you need; importing this package loads none of them.

=========================  =====================================================================
``sentence_transformers``  ranking losses on texts, plain and cached; a callback for their state
``lightly``                drop-in classes for ``NTXentLoss``, with and without a memory bank
``pytorch_metric_learning``  losses with its miners, distances, reducers and wrappers
``open_clip``              drop-in classes for ``ClipLoss``, with equal captions as groups
=========================  =====================================================================
"""

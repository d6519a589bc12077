"""Adapters of the losses to other libraries, one library per module.

Import the module that you need. Importing this package imports none of them.

===========================  =====================================================================
``sentence_transformers``    ranking losses on texts, plain and cached
``lightly``                  replacement of ``NTXentLoss``
``pytorch_metric_learning``  losses with its miners, distances, reducers and wrappers
``open_clip``                replacement of ``ClipLoss``, with equal captions as groups
===========================  =====================================================================
"""

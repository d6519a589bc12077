"""The losses in the form that other libraries expect, one library per file.

Import the file that you need. Importing this package loads none of them.

===========================  =====================================================================
``sentence_transformers``    ranking losses on texts, plain and cached; a callback for their state
``lightly``                  in place of ``NTXentLoss``
``pytorch_metric_learning``  losses with its miners, distances, reducers and wrappers
``open_clip``                in place of ``ClipLoss``, with equal captions as groups
===========================  =====================================================================
"""

"""Inspect embeddings: measure false negatives, duplicates and nuisances, and recommend a loss.

=============  =================================================================================
``files``      embeddings of a file, with metadata of each row
``runs``       embeddings of a run
``measures``   false negatives in a batch, neighborhoods
``suspects``   suspected false negatives as a table
``findings``   the advice, as values
``page``       table, figure, sentences and the HTML page
=============  =================================================================================
"""

"""Inspect embeddings: measure false negatives, duplicates and nuisances, and recommend a loss.

=============  =================================================================================
``files``      embeddings of a file, with metadata of each row
``images``     embeddings of a run on images, and pictures of its candidates
``measures``   false negatives in a batch, weights of each loss, neighborhoods
``findings``   the advice, as values
``page``       tables, figures, sentences and the HTML page
=============  =================================================================================
"""

"""What embeddings say of false negatives, duplicates and nuisances, and what to do about them.

=============  =================================================================================
``files``      embeddings of a file, with what is known of each row
``images``     embeddings of a run on images, and pictures of its candidates
``measures``   false negatives in a batch, and how each loss weights them
``findings``   the advice, as values
``plots``      the figures
``page``       tables, sentences and the HTML page
=============  =================================================================================
"""

"""Latent classes of embeddings, found without labels.

=============  =================================================================================
``mixture``    mixtures of von Mises-Fisher components and their fit
``posterior``  classes from two views of each item; whether two items are of one class
``trust``      how far to trust them
=============  =================================================================================
"""

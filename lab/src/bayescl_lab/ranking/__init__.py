"""Contrastive recommenders: interactions, encoders, candidates, baselines and full rankings.

Import the modules directly: the package itself imports none of them, so reading a data set does
not load the training loop.

=============================  ==============================================================
``data``, ``datasets``         options for reading; training and evaluation split
``readers``                    tables and fixed formats, with error messages for damaged files
``filters``, ``splits``        minimum rating, numbering of ids; training and test split
``interactions``               pairs of users and items as a sparse matrix, with original ids
``catalog``                    names and folders of published interactions
``encoders``                   matrix factorization and LightGCN
``candidates``, ``losses``     sampling of candidates; BPR
``module``, ``batches``        the Lightning module; batches of users
``scorers``                    scores of embeddings and popularity
``ease``, ``ials``             recommenders in closed form and by alternating least squares
``full_ranking``, ``metrics``  the best unseen items of every user; metrics of lists
=============================  ==============================================================
"""

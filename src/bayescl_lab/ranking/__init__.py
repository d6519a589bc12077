"""Contrastive recommenders: interactions, encoders, candidates, baselines and full rankings.

Needs ``bayescl[ranking]``. Import from its modules: importing this package loads none of them, so
that reading a data set does not load the training loop.

=============================  ==============================================================
``data``, ``datasets``         what to read and how; training and evaluation part
``readers``                    tables and fixed formats, with a message for each kind of damage
``filters``, ``splits``        minimum rating and k-core; which interactions judge
``interactions``               who chose what: one sparse matrix, original ids kept
``catalog``                    where public data sets come from; fetched and verified
``encoders``, ``encoder``      the table of them: matrix factorization and LightGCN; their base
``candidates``, ``losses``     what a pair's item is contrasted with; BPR
``module``, ``batches``        the Lightning module and the order of pairs
``scorers``, ``fold_in``       scores of embeddings, and popularity; scores for newcomers
``ease``, ``ials``             recommenders in closed form and by alternating least squares
``full_ranking``, ``metrics``  the best unseen items of every user, and how good they are
=============================  ==============================================================
"""

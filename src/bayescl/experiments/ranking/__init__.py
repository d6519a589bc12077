"""Recommenders: runs, their tuning, and the paper's table "Top-k ranking performance".

===========================  ================================================================
``data``, ``losses``         what a run reads, and which losses there are
``settings``, ``run``        train, resume and judge one recommender
``watch``                    validation after an epoch, early stopping, choice of the epoch
``baselines``                popularity and EASE, judged in the same way
``recommendations``          lists and embeddings of a run
``plans``, ``reproduction``  settings tried for every loss alike, and the table's runs
``paper``, ``published``     figures of others
``table``, ``figure``        ours beside theirs
===========================  ================================================================
"""

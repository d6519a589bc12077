"""Recommenders by contrast: interactions, readers and splits of data sets.

Needs ``bayescl[recsys]``. Import from the files themselves; importing this package loads none
of them.

===========================  ================================================================
``interactions``             who chose what: one sparse matrix, original ids by row and column
``readers``                  one file format each, with a message for each kind of damage
``datasets``, ``splits``     data sets by name or path; training and evaluation part
``catalog``                  where the public data sets come from, and on which terms
===========================  ================================================================
"""

"""Other people's methods against false negatives, under one interface and the library's own loop.

Written from the papers and checked against the authors' code:

| file | method | source |
|---|---|---|
| ``fnc.py`` | false negatives found by a teacher, left out or attracted | Huynh, WACV 2022 |
| ``glofnd.py`` | a learned threshold per item, what is above left out | Balmaseda, ICML 2025 |
| ``from_lightly.py`` | the nearest neighbour in a queue as positive | Dwibedi, ICCV 2021 |
| | balanced assignments, swapped between views | Caron, NeurIPS 2020 |
| ``steps.py`` | every loss of the library, the oracles among them | |

A method is a :class:`~rivals.steps.Rival`: it gets the embeddings of both views, the items' places
in the data set and, if it asks for one, a teacher. Encoder, views, batches, optimizer, epochs and
probes are those of ``bayescl compare images``.
"""

"""Other people's methods against false negatives, under one interface and the library's own loop.

Each file is one method, written from its paper and checked against its authors' code:

| file | method | source |
|---|---|---|
| ``fnc.py`` | false negatives found by a teacher, left out or attracted | Huynh, WACV 2022 |
| ``glofnd.py`` | a learned threshold per item, what is above left out | Balmaseda, ICML 2025 |
| ``nnclr.py`` | the nearest neighbour in a queue as positive | Dwibedi, ICCV 2021 |
| ``swav.py`` | balanced assignments, swapped between views | Caron, NeurIPS 2020 |
| ``oracles.py`` | labels: false negatives attracted | Khosla, NeurIPS 2020 |
| ``plain.py`` | every loss of the library | |

A method is a :class:`~rivals.steps.Rival`: it gets the embeddings of both views, the items' places
in the data set and, if it asks for one, a teacher. Encoder, views, batches, optimizer, epochs and
probes are those of ``bayescl compare images``.
"""

"""Other people's methods against false negatives, under one interface and the library's own loop.

Each file is one method, written from its paper and checked against its authors' code:

| file | method | source |
|---|---|---|
| ``fnc.py`` | false negatives found by a teacher, left out or attracted | Huynh et al., WACV 2022 |
| ``glofnd.py`` | a learned threshold per item, false negatives left out | Balmaseda et al., ICML 2025 |
| ``nnclr.py`` | the nearest neighbour in a queue as positive | Dwibedi et al., ICCV 2021 |
| ``swav.py`` | balanced assignments to prototypes, swapped between views | Caron et al., NeurIPS 2020 |
| ``oracles.py`` | labels: false negatives attracted, not merely left out | Khosla et al., NeurIPS 2020 |
| ``plain.py`` | every loss of the library | |

A method is a :class:`~rivals.steps.Rival`: it gets the embeddings of both views, the items' places
in the data set and, if it asks for one, a teacher. Encoder, views, batches, optimizer, epochs and
probes are those of ``bayescl compare images``.
"""

"""Recommenders beside other libraries, where those are installed."""

import numpy as np
import pytest
from recsys import random_interactions

pytest.importorskip("implicit", reason="needs implicit")
pytest.importorskip("cornac", reason="needs Cornac")


def test_both_libraries_train_an_epoch_and_both_programs_run():
    from recommender_libraries import matrix_factorization, measured

    methods = matrix_factorization(random_interactions(users=30, items=40, pairs=200), threads=1)
    rows = measured("an epoch", methods, rounds=1)
    assert [row["library"] for row in rows] == ["implicit", "bayescl"]
    assert all(np.isfinite(row["median_s"]) for row in rows)

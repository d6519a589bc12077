"""Many runs, one after the other or several at a time."""

import os
import weakref
from types import SimpleNamespace

import pytest

from bayescl_lab.runs.parallel import train_runs


def is_killed(*_, **__):
    os._exit(9)


def test_runs_are_saved_often_and_free_their_memory_and_a_killed_worker_is_told(tmp_path):
    alive: list[weakref.ref] = []
    every = []

    class Trainer:
        def __init__(self) -> None:
            self.model = SimpleNamespace(trainer=self)

    def train(settings, out, *, resume, checkpoint_every, progress):
        assert not any(one() for one in alive)
        trainer = Trainer()
        alive.append(weakref.ref(trainer))
        every.append(checkpoint_every)
        return {}

    runs = {f"{epochs} epochs": SimpleNamespace(epochs=epochs) for epochs in (1, 12, 400)}
    assert list(train_runs(runs, tmp_path, train=train)) == list(runs)
    assert every == [1, 4, 10]
    assert train_runs({}, tmp_path, train=train, workers=3) == {}
    with pytest.raises(ValueError, match="was killed, perhaps for lack of memory"):
        train_runs(runs, tmp_path, train=is_killed, workers=2)

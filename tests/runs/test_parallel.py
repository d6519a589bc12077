"""Many runs one after the other."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

from bayescl_lab.runs.parallel import train_runs


def test_runs_are_saved_often_and_their_memory_is_free_before_the_next(tmp_path):
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

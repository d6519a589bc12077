"""``bayescl`` in a folder and in a process group of its own, to be interrupted or killed.

    python in_background.py FOLDER OPTIONS...

If ``FAILING_RANK`` is set, this rank fails in the middle of an epoch.
"""

import os
import signal
import sys

from bayescl_lab.cli import main
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.runs.settings import process_rank

drawn, choose = 0, DrawnCandidates.choose


def failing(self: DrawnCandidates, batch: object, *, seed: int):
    """Choose candidates, but not a third time."""
    global drawn
    drawn += 1
    rank = process_rank(2).rank
    if drawn == 3 and rank == int(os.environ["FAILING_RANK"]):
        raise ValueError(f"rank {rank} has had enough")
    return choose(self, batch, seed=seed)


if __name__ == "__main__":
    if "FAILING_RANK" in os.environ:
        DrawnCandidates.choose = failing
    if "LOCAL_RANK" not in os.environ:  # processes that this one starts belong to its group
        os.setsid()
    # A suite that a shell runs in its background ignores the signal, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(sys.argv[1])
    sys.exit(main(sys.argv[2:]))

"""``bayescl`` in a folder and in a process group of its own, to be interrupted or killed.

python in_background.py FOLDER OPTIONS...

The rank ``FAILING_RANK`` of the environment, if there is one, fails in the middle of an epoch.
"""

import os
import signal
import sys

from bayescl_lab.cli import main
from bayescl_lab.ranking import module
from bayescl_lab.runs.settings import process_rank

drawn, compute = 0, module.sampled_loss


def failing(*given: object, **options: object):
    """Compute a loss, but not a third time on the rank that fails."""
    global drawn
    drawn += 1
    if drawn == 3 and str(process_rank(2).rank) == os.environ.get("FAILING_RANK"):
        raise ValueError(f"rank {process_rank(2).rank} has had enough")
    return compute(*given, **options)


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:  # processes that this one starts belong to its group
        os.setsid()
    # A suite that a shell runs in its background ignores the signal, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(sys.argv[1])
    module.sampled_loss = failing
    sys.exit(main(sys.argv[2:]))

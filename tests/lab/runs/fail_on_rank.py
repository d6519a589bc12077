"""``bayescl`` where one rank, if there is one of that number, fails in the middle of an epoch.

python fail_on_rank.py RANK OPTIONS...
"""

import sys

from bayescl_lab.cli import main
from bayescl_lab.ranking import module
from bayescl_lab.runs.settings import process_rank

drawn, compute = 0, module.sampled_loss


def failing(*given: object, **options: object):
    """Compute a loss, but not a third time."""
    global drawn
    drawn += 1
    if drawn == 3 and process_rank(2).rank == int(sys.argv[1]):
        raise ValueError(f"rank {sys.argv[1]} has had enough")
    return compute(*given, **options)


if __name__ == "__main__":
    module.sampled_loss = failing
    sys.exit(main(sys.argv[2:]))

"""``bayescl`` in a folder and in a process group of its own, to be interrupted or killed.

python in_background.py FOLDER OPTIONS...
"""

import os
import signal
import sys

from bayescl_lab.cli import main


def command(folder: str, *words: str) -> int:
    """Run a command line in a folder, in a process that has nothing else to do."""
    os.chdir(folder)
    return main(list(words))


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:  # processes that this one starts belong to its group
        os.setsid()
    # A suite that a shell runs in its background ignores the signal, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(command(*sys.argv[1:]))

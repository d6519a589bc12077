"""``python -m bayescl.cli``, where the ``bayescl`` script is not on the path."""

import sys

from bayescl.cli._app import main

if __name__ == "__main__":
    sys.exit(main())

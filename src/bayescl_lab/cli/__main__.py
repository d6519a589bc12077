"""``python -m bayescl_lab.cli``, where the ``bayescl`` script is not on the path."""

import sys

from bayescl_lab.cli._app import main

if __name__ == "__main__":
    sys.exit(main())

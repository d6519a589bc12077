"""Entry point of ``python -m bayescl_lab.cli``, for use without the ``bayescl`` script."""

import sys

from bayescl_lab.cli._app import main

if __name__ == "__main__":
    sys.exit(main())

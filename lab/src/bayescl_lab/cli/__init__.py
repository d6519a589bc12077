"""The ``bayescl`` command.

A command is a function in the module of its first word (``bayescl train images``: ``images`` in
``train.py``) or in ``finished.py``. ``_app.py`` lists the commands. Options, their types and help
come from the function's signature and docstring. Import heavy libraries inside the function.
"""

from bayescl_lab.cli._app import main

__all__ = ["main"]

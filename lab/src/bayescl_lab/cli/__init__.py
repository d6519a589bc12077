"""The ``bayescl`` command.

Every command is a function in the module of its first word: ``bayescl train images`` is ``images``
in ``train.py``. ``_app.py`` lists the commands. The options of a command, their types and help
come from the function's signature and docstring. Import heavy libraries inside the function.
"""

from bayescl_lab.cli._app import main

__all__ = ["main"]

"""The ``bayescl`` command.

Every command is a function in the module of its first word: ``bayescl train images`` is ``images``
in ``train.py``. ``_app.py`` lists the commands. The options of a command, their types and help
come from the function's signature and docstring. Import heavy libraries inside the function.
"""

from bayescl._checks import missing

try:
    from bayescl_lab.cli._app import main
except ModuleNotFoundError as error:
    if error.name != "cyclopts":
        raise
    raise SystemExit(f"bayescl: {missing('Cyclopts', 'all', error)}") from None

__all__ = ["main"]

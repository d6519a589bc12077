"""The ``bayescl`` command.

Every command is a function in the module of its first word: ``bayescl train images`` is ``images``
in ``train.py``, ``bayescl embed`` is ``command`` in ``embed.py``; ``_app.py`` lists them. A
function receives the options, whose types and help come from its signature and docstring. Import
heavy libraries inside it.
"""

from bayescl.checks import missing

try:
    from bayescl_lab.cli._app import main
except ModuleNotFoundError as error:
    if error.name != "cyclopts":
        raise
    raise SystemExit(f"bayescl: {missing('Cyclopts', 'all', error)}") from None

__all__ = ["main"]

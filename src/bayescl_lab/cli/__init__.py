"""The ``bayescl`` command.

Every module here whose name has no leading underscore is one command, ``_`` read as a space:
``train_images.py`` is ``bayescl train images``; ``_app.py`` lists them. Its function ``command``
receives the options; their types and help come from its signature and docstring. Import heavy
libraries inside that function.
"""

from bayescl.checks import missing

try:
    from bayescl_lab.cli._app import main
except ModuleNotFoundError as error:
    if error.name != "cyclopts":
        raise
    raise SystemExit(f"bayescl: {missing('Cyclopts', 'all', error)}") from None

__all__ = ["main"]

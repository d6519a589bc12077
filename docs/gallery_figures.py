"""Figures of the gallery that were made without pyplot."""

from __future__ import annotations

import re
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_MAKES_ONE = re.compile(r"^figure = \w+_figure\(", re.MULTILINE)


def made_by_a_call(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figure that a block of an example gets from one of the library's functions."""
    figure = block_vars["example_globals"].get("figure")
    if not isinstance(figure, Figure) or not _MAKES_ONE.search(block[1]):
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path)
    return str(figure_rst([path], gallery_conf["src_dir"]))

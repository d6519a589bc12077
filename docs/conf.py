"""How Sphinx builds the site: ``make docs``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

import bayescl

sys.path.insert(0, str(Path(__file__).parent))  # for gallery_figures

project = "bayescl"
author = "The bayescl developers"
project_copyright = author
version = release = bayescl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/GALLERY_HEADER.rst"]
templates_path: list[str] = []

# Pages -------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
# The commands are shown in "sh", which are not sessions: nothing to strip but Python's prompts.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Docstrings --------------------------------------------------------------------------------------
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
autosummary_generate = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 72
add_module_names = False

# Examples ----------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(plot_|two_processes)",
    "ignore_pattern": r"/_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "image_scrapers": ("matplotlib", "gallery_figures.made_by_a_call"),
}

# The site ----------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"bayescl {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"


# Sizes of delimiters, which the converter does not know.
_SIZE = re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])")


def _inline_math(writer: Any, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers draw themselves: no script, no network."""
    writer.body.append(tex2mathml(_SIZE.sub("", node.astext())))
    raise nodes.SkipNode


def _display_math(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    formula = tex2mathml(_SIZE.sub("", node.astext()), as_block=True)
    writer.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


# A jaxtyping annotation, as Sphinx prints it.
_SHAPE = re.compile(r"""\b(Float|Int|Bool)\[Tensor, (['"]) ?([^'"]*)\2\]""")


# Links to pages and examples outside docs/, and where they are on the site.
_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/gallery/(\w+)\.py\)")
_ELSEWHERE = {
    "(../README.md": "(index.md",
    "(../benchmarks/README.md": "(benchmarks.md",
    "(../reproduction/README.md": "(paper.md",
    "(../../benchmarks/results)": "(../benchmarks.md)",
}


def _pages_elsewhere(app: Sphinx, docname: str, source: list[str]) -> None:
    """Point links that work in the repository at the site's own pages."""
    del app, docname
    for link, page in _ELSEWHERE.items():
        source[0] = source[0].replace(link, page)
    source[0] = _EXAMPLE.sub(r"](/gallery/\1.rst)", source[0])


def _readable_shapes(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Leave the tensor out of shapes: ``Float['anchors candidates']``."""
    del app, what, name, obj, options

    def readable(text: str | None) -> str | None:
        return None if text is None else _SHAPE.sub(r"\1['\3']", text)

    return readable(signature), readable(returned)


def _readable_types(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Do the same in the types of attributes, where a star must not start emphasis."""
    del app, what, name, obj, options
    for number, line in enumerate(lines):
        if line.lstrip().startswith(":type"):
            lines[number] = _SHAPE.sub(r"\1['\3']", line).replace("*", r"\*")


# Where public names are documented.
PUBLIC = ("losses", "functional", "engine", "batch", "samplers")
PUBLIC += ("diagnostics", "estimation", "distributed")


def _public_alias(app: Sphinx, env: Any, node: Any, contnode: nodes.Node) -> nodes.Node | None:
    """Point ``bayescl.Name`` and private modules' names at where the name is documented."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rsplit(".", 1)[-1]
    domain = env.domains["py"]
    for room in PUBLIC:
        target = f"bayescl.{room}.{name}"
        if target in domain.objects:
            entry = domain.objects[target]
            return make_refnode(
                app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, target
            )
    return None


def setup(app: Sphinx) -> None:
    """Connect what is defined above."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("source-read", _pages_elsewhere)
    app.connect("autodoc-process-signature", _readable_shapes)
    app.connect("autodoc-process-docstring", _readable_types, priority=900)  # after napoleon
    app.connect("missing-reference", _public_alias)

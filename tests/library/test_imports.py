"""Importing costs only torch, and only where torch is needed. `lint-imports` checks layers."""

import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp


def loaded_by(statement: str, *, before: str = "") -> set[str]:
    """Top-level packages outside the standard library that a statement brings in."""
    program = (
        f"import sys, json\n{before}\nbefore = set(sys.modules)\n{statement}\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    found = json.loads(output.splitlines()[-1])
    return {name for name in found if name not in sys.stdlib_module_names}


def test_importing_bayescl_loads_nothing_else_and_a_loss_only_torch():
    assert loaded_by("import bayescl, bayescl_lab") == {"bayescl", "bayescl_lab"}
    before = "import torch, numpy, jaxtyping"
    assert loaded_by("from bayescl import *", before=before) == {"bayescl"}


def test_the_library_does_its_work_without_extras():
    program = Path(__file__).with_name("alone.py")
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_help_loads_what_shows_it_and_a_list_of_data_sets_no_torch():
    loaded = loaded_by("from bayescl_lab.cli import main; main(['--help'])")
    shows = {"attr", "attrs", "cyclopts", "docstring_parser", "markdown_it", "mdurl", "pygments"}
    assert loaded <= {"bayescl", "bayescl_lab", "rich", "rich_rst", "typing_extensions", *shows}
    assert "torch" not in loaded_by("from bayescl_lab.cli import main; main(['data', 'list'])")
    of_images = loaded_by("from bayescl_lab.cli import main; main(['train', 'images', '--help'])")
    assert not of_images & {"lightning", "torchvision", "sklearn", "matplotlib"}


def test_imports_make_no_circle():
    graph = grimp.build_graph("bayescl", "bayescl_lab")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle

"""The floors of the house: a folder imports only lower floors, and importing costs only torch."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "bayescl"

# Each room stands on a floor and may import the rooms of lower floors only. Rooms that do not
# exist yet are part of the plan.
FLOORS: dict[str, int] = {
    "_axes": 0,
    "_checks": 0,
    "_fields": 0,
    "_randomness": 0,
    "_files": 0,
    "_cores": 0,
    "_figures": 0,
    "_downloads": 0,
    "functional": 1,
    "distributed": 1,
    "engines": 2,
    "losses": 3,
    "estimation": 3,
    "diagnostics": 3,
    "simulation": 3,
    "vision": 4,
    "recsys": 4,
    "integrations": 5,
    "runs": 5,
    "experiments": 6,
    "report": 7,
    "cli": 8,
}
STRANGERS = {"simulation", "vision", "recsys"}
"""Rooms that never import one another, whatever their floors."""
NEIGHBOURS = {
    ("diagnostics", "losses"),
    ("diagnostics", "estimation"),
    ("_fields", "_checks"),
    ("_downloads", "_files"),
    ("_figures", "_files"),
    ("runs", "integrations"),
}
"""Rooms that may look into another room of their own floor: first the one that looks."""


def room_of(module: str) -> str:
    """The room of a dotted module name below the package, or "" for the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def module_name(path: Path) -> str:
    parts = ["bayescl", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Every bayescl module that a file imports, wherever in the file the import stands."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                prefix = ".".join(parts[: len(parts) - node.level + 1])
                base = f"{prefix}.{base}" if base else prefix
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {target for target in found if target.split(".")[0] == "bayescl"}


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[module_name(path) for path in FILES])
def test_a_file_imports_only_lower_floors(path: Path) -> None:
    room = room_of(module_name(path))
    if room == "":  # the front door re-exports
        return
    assert room in FLOORS, f"{room} stands on no floor: add it to FLOORS"
    for target in imports_of(path):
        other = room_of(target)
        if other in (room, "", "__version__"):
            continue
        below = FLOORS[other] < FLOORS[room] or (room, other) in NEIGHBOURS
        allowed = below and not {room, other} <= STRANGERS
        assert allowed, f"{module_name(path)} (floor {FLOORS[room]}) imports {target}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("path", FILES, ids=[module_name(path) for path in FILES])
def test_no_private_name_is_imported_from_another_room(path: Path) -> None:
    own = room_of(module_name(path))
    for target in imports_of(path):
        room = room_of(target)
        # Floor 0 is shared by all: its rooms are private to the package, not to a floor.
        inside = target.split(".")[2:]
        private = [name for name in inside if is_private(name)]
        assert room == own or not private, f"{module_name(path)} imports {target}"


def defined_privately(tree: ast.AST) -> set[str]:
    """Private names that a file defines: functions, classes, methods, attributes, fields."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return {name for name in found if is_private(name)}


def test_no_private_attribute_is_used_in_another_room() -> None:
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    defined: dict[str, set[str]] = {}
    for path, tree in trees.items():
        defined.setdefault(room_of(module_name(path)), set()).update(defined_privately(tree))
    everywhere = set().union(*defined.values())
    for path, tree in trees.items():
        room = room_of(module_name(path))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        foreign = {name for name in used if is_private(name)} & everywhere - defined[room]
        assert not foreign, f"{module_name(path)} uses {sorted(foreign)} of another room"


def test_rooms_make_no_circle() -> None:
    rooms: dict[str, set[str]] = {}
    for path in FILES:
        room = room_of(module_name(path))
        others = {room_of(target) for target in imports_of(path)} & set(FLOORS)
        rooms.setdefault(room, set()).update(others - {room})
    rooms.pop("")  # the front door re-exports
    while rooms:
        free = {room for room, others in rooms.items() if not others & set(rooms)}
        assert free, f"circle among {sorted(rooms)}"
        rooms = {room: others for room, others in rooms.items() if room not in free}


def test_imports_make_no_circle() -> None:
    known = {module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        edges = set()
        for target in imports_of(path):
            module = target if target in known else target.rpartition(".")[0]
            if module in known and module != name:
                edges.add(module)
        graph[name] = edges

    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            circle = " -> ".join([*trail[trail.index(name) :], name])
            raise AssertionError(f"import circle: {circle}")
        if name in done:
            return
        for target in graph[name]:
            visit(target, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


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


def test_importing_bayescl_loads_nothing_else() -> None:
    assert loaded_by("import bayescl") == {"bayescl"}


def test_a_loss_loads_torch_and_nothing_heavier() -> None:
    before = "import torch, numpy, jaxtyping"
    assert loaded_by("from bayescl import *", before=before) == {"bayescl"}


def test_an_overview_of_the_commands_loads_nothing_else() -> None:
    assert loaded_by("from bayescl.cli import main; main(['--help'])") == {"bayescl"}


def test_a_list_of_the_data_sets_does_without_torch() -> None:
    assert "torch" not in loaded_by("from bayescl.cli import main; main(['data', 'list'])")

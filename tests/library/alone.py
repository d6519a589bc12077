"""What the library does with torch, NumPy and jaxtyping alone, as a program.

    python tests/alone.py

All other packages are hidden from it, so it needs no fresh environment. It runs every example in
the docstrings of the library and every loss on every engine, and checks that what needs an extra
says which. `test_imports.py` runs it.
"""

import doctest
import pkgutil
import sys
from importlib import import_module
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from itertools import product

ALONE = {
    *("bayescl", "torch", "torchgen", "functorch", "numpy", "jaxtyping", "typing_extensions"),
    *("nvidia", "cuda", "sympy", "mpmath", "networkx", "filelock", "fsspec", "jinja2"),
    *("markupsafe", "wadler_lindig", "setuptools", "_distutils_hack", "pkg_resources"),
}
"""What `pip install bayescl` brings on every platform, by the names to import."""

MISSING = {
    "bayescl.integrations.sentence_transformers": "pip install 'bayescl[sentence-transformers]'",
    "bayescl.integrations.pytorch_metric_learning": "install 'bayescl[pytorch-metric-learning]'",
    "bayescl._engine.fused": 'engine="fused" needs Triton',
    "bayescl._engine.fused_kernels": "triton",
}
"""Modules that cannot be imported, and a part of the message."""


class Alone(PathFinder):
    """Finds the library, what it requires, and the standard library."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        root = name.partition(".")[0]
        known = (
            root in ALONE or root in sys.stdlib_module_names or root.startswith("_sysconfigdata")
        )
        return super().find_spec(name, path, target) if known else None


sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Alone]
import torch  # noqa: E402

import bayescl  # noqa: E402


def refused(module: str, message: str) -> None:
    """Check that a module says what it needs."""
    try:
        import_module(module)
    except ImportError as error:
        if message in str(error):
            return
        raise
    raise AssertionError(f"{module} was imported")


def run_examples() -> None:
    """Run the examples of all modules; those that need another package must name it."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    for module in pkgutil.walk_packages(bayescl.__path__, "bayescl."):
        if module.name in MISSING:
            refused(module.name, MISSING[module.name])
        else:
            found = import_module(module.name)
            outcome = doctest.testmod(found, extraglobs={"torch": torch}, optionflags=flags)
            assert outcome.failed == 0, module.name


def run_losses() -> None:
    """Compute every loss on every engine, with its gradient."""
    kinds = [getattr(bayescl, name) for name in bayescl.__all__ if name.endswith("Loss")]
    rows = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    known = {"groups": torch.arange(6), "labels": torch.arange(6) % 3, "teacher": rows[0, :, :2]}
    for kind, engine in product(kinds, ("reference", "blocked", "fused")):
        objective = (bayescl.functional.InfoNCE(),) if kind is bayescl.ContrastiveLoss else ()
        loss = kind(*objective, engine=engine)
        first, second = rows.clone().requires_grad_()
        value = loss(first, second, **known) + loss.in_batch(first, second, **known)
        value.backward()
        assert value.isfinite(), (kind, engine)


if __name__ == "__main__":
    run_examples()
    run_losses()

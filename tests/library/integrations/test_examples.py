"""Every example runs with our lines and with the library's own, as its page shows them."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("default")


def changes(page: str) -> list[tuple[str, str]]:
    """The lines that a page's first diff takes away, and those that it puts in their place."""
    text = (ROOT / "docs" / "integrations" / page).read_text()
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    hunks = re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE)
    assert hunks, f"{page} must open with a diff"
    return [tuple(re.sub(r"^.", "", part, flags=re.MULTILINE) for part in hunk) for hunk in hunks]


def finite(value: Any) -> bool:
    return bool(value.isfinite())


@pytest.mark.parametrize(
    ("page", "example", "needs", "kind", "works"),
    [
        (
            "lightly.md", "lightly_simclr.py", ["lightly"],
            lambda names: type(names["criterion"]), lambda names: finite(names["loss"]),
        ),
        (
            "lightning.md", "lightning_simclr.py", ["lightning", "lightly"],
            lambda names: type(names["model"].criterion),
            lambda names: finite(names["trainer"].logged_metrics["loss"]),
        ),
        (
            "open_clip.md", "open_clip_pairs.py", ["open_clip"],
            lambda names: type(names["criterion"]),
            lambda names: finite(names["model"].logit_scale.grad),
        ),
        (
            "pytorch_metric_learning.md", "metric_learning_digits.py", ["pytorch_metric_learning"],
            lambda names: type(names["loss_func"]), lambda names: names["precision"] > 0.9,
        ),
        (
            "sentence_transformers.md", "train_text_pairs.py",
            ["sentence_transformers", "datasets"],
            lambda names: type(names["loss"]),
            lambda names: names["similarity"].argmax(1).tolist() == [0, 1, 2],
        ),
    ],
)  # fmt: skip
def test_an_example_runs_with_their_lines_and_with_ours(
    page, example, needs, kind, works, tmp_path
):
    for library in needs:
        pytest.importorskip(library, reason=f"needs {library}")
    source = (ROOT / "examples" / example).read_text()
    for theirs, ours in changes(page):
        assert source.count(ours) == 1, f"{example} must contain the lines of {page}"
        source = source.replace(ours, theirs)
    original = tmp_path / example
    original.write_text(source)
    before, after = (runpy.run_path(str(path)) for path in (original, ROOT / "examples" / example))
    assert not kind(before).__module__.startswith("bayescl")
    assert kind(after).__module__.startswith("bayescl")
    assert works(before)
    assert works(after)

"""Code and links of the pages work, and the pages name every public name."""

import __future__

import importlib
import json
import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "reproduction/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = [page for page in PAGES if "gallery" not in page.parts]
MODULES = ("losses", "functional", "diagnostics", "estimation", "rows", "batch", "samplers")

# Code before a page's own: names that the page uses and does not define.
BEFORE = {
    "docs/integrations/lightning.md": """
import lightning.pytorch as pl
import torch
import bayescl
from bayescl_lab.images.encoders import ResNetEncoder
encoder = ResNetEncoder("resnet18", image_size=32)
""",
    "docs/integrations/open_clip.md": """
import torch
from bayescl.integrations.open_clip import ClipLoss
loss, texts = ClipLoss(), torch.tensor([[1, 2], [1, 2], [3, 4], [5, 6]])
rows = torch.nn.functional.normalize(torch.randn(2, 4, 8), dim=-1)
sentence_embeddings = torch.randn(4, 5)
model_out = {"image_features": rows[0], "text_features": rows[1], "logit_scale": torch.tensor(9.0)}
""",
    "docs/integrations/pytorch_metric_learning.md": """
import torch
images, view_1, view_2 = torch.randn(3, 8, 4)
model = torch.nn.Linear(4, 4)
""",
    "docs/serving.md": """
from pathlib import Path
import numpy, torch
from bayescl_lab.cli import main
rows = [f"u-{user},i-{item}" for user in range(50) for item in range(30) if (user + item) % 3]
Path("my.csv").write_text("user,item\\n" + "\\n".join(rows))
images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8)
numpy.savez("images.npz", images=images[:, 0].numpy(), labels=numpy.arange(40) % 2)
quick = "--epochs 1 --batch-size 16 --device cpu --out"
assert main(f"train ranking --data my.csv {quick} runs/second".split()) == 0
assert main(f"train images --data images.npz {quick} runs/first".split()) == 0
Path("live").symlink_to("runs/second")
assert main("evaluate runs/first".split()) == 0
assert main("export runs/first --to DIR".split()) == 0
""",
    "docs/integrations/sentence_transformers.md": """
import tempfile
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from bayescl import DomainBatchSampler, InfoNCELoss
import torch
from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss, ranking_dataset
questions, answers = ["a b", "c d"], ["a c", "b d"]
tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3, "d": 4}, "[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
settings = SentenceTransformerTrainingArguments(
    output_dir=tempfile.mkdtemp(), num_train_epochs=1, report_to="none", use_cpu=True
)
""",
}


# Libraries that a page's code needs. By default, a page of docs/integrations needs its own library.
LIBRARIES = {
    "lightning": ("lightning", "huggingface_hub"),
}


def name_of(page: Path) -> str:
    """Path of a page from the root, as in the tables above."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of a language."""
    fenced = re.compile(rf"^( *)```{language}\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
    return [dedent(code) for _, code in fenced.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    by_name = (page.stem,) if page.parent.name == "integrations" else ()
    for library in LIBRARIES.get(page.stem, by_name):
        if not find_spec(library):
            pytest.skip(f"needs {library}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for code in (BEFORE.get(name_of(page), ""), *blocks(page, "python")):
        # Pages that quote a signature need not import what its hints name.
        flags = __future__.annotations.compiler_flag
        exec(compile(code, name_of(page), "exec", flags=flags), names)


LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md", ROOT / "CHANGELOG.md"]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site name them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        if link.startswith(("https://", "mailto:")):
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_site_has_a_page_for_every_linked_example():
    linked = {
        name
        for page in PAGES
        for name in re.findall(r"examples/gallery/(\w+)\.py", page.read_text(encoding="utf-8"))
    }
    assert len(linked) > 5
    pattern = re.search(r'"filename_pattern": r"(.+)"', (ROOT / "docs/conf.py").read_text())
    assert pattern
    assert all(re.search(pattern[1], f"/{name}.py") for name in linked)


def test_every_public_name_has_its_place_on_the_api_pages():
    for module in MODULES:
        names = set(importlib.import_module(f"bayescl.{module}").__all__)
        page = (ROOT / "docs" / "api" / f"{module}.md").read_text(encoding="utf-8")
        shown = set(re.findall(r"^\.\. auto\w+:: (\w+)$", page, re.MULTILINE))
        assert shown <= names, f"not public: {sorted(shown - names)}"
        elsewhere = set(re.findall(r"`(\w+)`", page))
        assert names <= shown | elsewhere, f"missing: {sorted(names - shown - elsewhere)}"
    overview = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    for name in importlib.import_module("bayescl").__all__:
        assert re.search(rf"\b{name}\b", overview), name


def test_pages_are_short():
    words = {name_of(page): len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert words["README.md"] <= 600
    assert words["docs/teacher.md"] <= 1_000
    assert sum(words.values()) <= 18_500


QUOTED = re.compile(r"<!-- quote: \S+ (\S+?)(?: |(?=-->))")


def quoted(page: Path) -> set[Path]:
    """Result files that a page quotes. If several match, the last by name counts."""
    places = QUOTED.findall(page.read_text(encoding="utf-8"))
    return {sorted(page.parent.glob(place))[-1].resolve() for place in places}


def test_every_quoted_result_names_the_commit_that_made_it():
    files = set().union(*map(quoted, [*PAGES, ROOT / "benchmarks/README.md"]))
    results = [file for file in files if file.suffix == ".json"]
    assert len(results) > 15
    for file in results:
        commit = json.loads(file.read_text(encoding="utf-8"))["commit"]
        assert re.fullmatch(r"[0-9a-f]{40}\+?", commit), file  # +: and changes

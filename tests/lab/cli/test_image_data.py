"""Runs on made-up images with a known answer: what is printed is what was trained and measured."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy.stats import binomtest

import bayescl_lab
from bayescl_lab.runs.result import Result

QUICK = "--batch-size 16 --width 4 --epochs 1 --device cpu"
KINDS = ("ant", "bee", "cow")
TABLE = "--data flat --table meta.csv --label-column type --domain-column scope"


def images(count: int = 72) -> np.ndarray:
    """Images of three kinds, seen by three microscopes that tint them."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 60, (count, 12, 12, 3))
    for number, image in enumerate(pixels):
        image[3 * (number % 3) : 3 * (number % 3) + 3] += 120
        image[..., number // 3 % 3] += 60
    return pixels.clip(0, 255).astype(np.uint8)


@pytest.fixture
def flat(bayescl) -> None:
    """A flat folder with three copies, and a table with a label for a third of it."""
    Path("flat").mkdir()
    lines = ["file,scope,type,x", "gone.png,s0,ant,1"]
    for number, image in enumerate(images()):
        Image.fromarray(image).save(f"flat/{number:03}.png")
        kind = KINDS[number % 3] if number < 24 else ""
        lines.append(f"{number:03}.png,s{number // 3 % 3},{kind},1")
    for number in range(3):
        shutil.copy(f"flat/{number + 40:03}.png", f"flat/copy{number}.png")
    Path("meta.csv").write_text("\n".join(lines))


@pytest.fixture
def run(flat, trained) -> Path:
    """A run on the folder, with domains."""
    return Path(trained("scopes", f"train images {TABLE} --domains {QUICK}"))


def result(folder: str | Path = "run") -> Result:
    return Result.read_file(Path(folder, "result.json"))


def test_a_table_is_counted_copies_are_listed_and_few_images_have_an_interval(bayescl, run):
    said = result(run)
    remarks = "\n".join(said.remarks)
    assert "files from 'file', labels from 'type', domains from 'scope'" in remarks
    assert "1 of 73 rows do not match exactly one image: gone.png" in remarks
    assert "3 of 75 images have no row: copy0.png" in remarks
    assert "51 of 75 images have no label" in remarks
    assert "3 domains: s0 (24), s1 (24), s2 (24); 3 images have none" in remarks
    assert "3 images are exact copies of others" in remarks
    copies = pl.read_csv(run / "copies.csv")
    pairs = copies.group_by("group").agg(pl.col("image").sort())["image"].to_list()
    assert sorted(pairs) == [[f"{number + 40:03}.png", f"copy{number}.png"] for number in range(3)]
    assert said.sizes == {"train": 69, "test": 6}  # 30 % of the 24 labeled ones
    shown = bayescl("evaluate run").out
    accuracy = said.row.scores["knn"].mean
    interval = binomtest(round(6 * accuracy), 6).proportion_ci(method="wilson")
    assert "6 items, 95 % intervals in parentheses" in shown
    assert f"{100 * accuracy:.1f} ({100 * interval.low:.0f} to {100 * interval.high:.0f})" in shown


def test_inspect_measures_what_embed_writes_and_each_says_which(bayescl, run):
    shown = bayescl("inspect run").out
    assert "of the nearest neighbors are of the item's own domain" in shown
    figures = [json.loads(Path("run/inspection.json").read_text())["neighborhood"]]
    for output in ("head", "features"):
        assert bayescl(f"embed run --of train --output {output} --out e.parquet").status == 0
        assert set(pl.read_parquet("e.parquet")["output"]) == {output}
        shown = bayescl("inspect e.parquet --out e.html").out
        assert f"Measured on {output} of unaugmented items" in shown
        assert f"Measured on {output} of unaugmented items" in Path("e.html").read_text()
        figures.append(json.loads(Path("e.json").read_text())["neighborhood"])
    assert figures[0]["same_domain"] == pytest.approx(figures[1]["same_domain"], abs=0.005)
    assert figures[0]["effective_dim"] == pytest.approx(figures[1]["effective_dim"], rel=1e-3)
    assert figures[2]["effective_dim"] != pytest.approx(figures[1]["effective_dim"], rel=0.05)


def test_embedding_needs_neither_a_batch_nor_labels_nor_domains(bayescl, run):
    Path("nine").mkdir()
    for number in range(9):
        shutil.copy(f"flat/{number:03}.png", "nine")
    for options in ("--of train", "--of all", ""):
        assert bayescl(f"embed run --data nine {options} --out e.parquet").status == 0
        frame = pl.read_parquet("e.parquet")
        assert frame["image"].to_list() == [f"{number:03}.png" for number in range(9)]
    expected = bayescl_lab.load("run").embed(images()[:9].transpose(0, 3, 1, 2))
    np.testing.assert_allclose(frame["embedding"].to_numpy(), expected, rtol=1e-4, atol=1e-5)
    assert bayescl("inspect run --data nine").status == 0
    assert bayescl("embed run --of all --out all.parquet").status == 0
    frame = pl.read_parquet("all.parquet")
    assert frame["part"].value_counts(sort=True).rows() == [("train", 69), ("evaluation", 6)]
    shutil.rmtree("nine")
    Path("nine").mkdir()
    Image.new("L", (12, 12)).save("nine/gray.png")
    complaint = bayescl("embed run --data nine --out e.npy").complaint
    assert "images must have shape [3, 12, 12] as in training, got [1, 12, 12]" in complaint


def test_a_finished_run_refuses_other_images_and_follows_its_own(bayescl, run):
    shutil.copytree("flat", "moved")
    assert bayescl("train images --resume --out run --data moved").status == 0
    shutil.rmtree("flat")
    assert bayescl("evaluate run").status == 0
    Path("moved/000.png").unlink()
    complaint = bayescl("train images --resume --out run --data moved").complaint
    assert "images changed since training: 1 removed" in complaint


def test_unlabeled_images_of_an_archive_are_in_no_figure(bayescl):
    labels = np.where(np.arange(72) < 24, np.arange(72) % 3, -1)
    np.savez("some.npz", images=images().transpose(0, 3, 1, 2), labels=labels)
    assert bayescl(f"train images --data some.npz {QUICK} --out run").status == 0
    assert result().sizes == {"train": 66, "test": 6}
    frame = pl.from_numpy(np.load("run/items.npz")["labels"], schema=["label"])
    counts = dict(frame["label"].value_counts().rows())
    assert counts == {-1: 48, 0: 8, 1: 8, 2: 8}
    more = bayescl(f"train images --data some.npz {QUICK} --labels-per-class 7 --out more")
    assert "the loss was given the labels of 21 of 69 images" in more.out
    assert result("more").sizes == {"train": 69, "test": 3}
    refused = bayescl(f"train images --data some.npz {QUICK} --labels-per-class 9 --out none")
    assert "got 9: class 0 has 8" in refused.complaint

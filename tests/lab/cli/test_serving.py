"""Runs that remember their data and serve without them, as a user meets it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from ranking_data import OPTIONS
from runs.same_run import fill_the_disk

import bayescl_lab as library
from bayescl_lab.runs.result import Result


def test_a_run_is_judged_on_its_own_record_or_on_other_data(bayescl, recommender):
    scores = Result.read_file(Path("run/result.json")).row.scores
    with Path("bought.csv").open("a") as opened:
        opened.writelines(f"u-{number},film {7 * number % 24},5\n" for number in range(30))
    assert bayescl("evaluate run").status == 0
    assert Result.read_file(Path("run/evaluation.json")).row.scores == scores
    # Pairs that the run was trained on never count.
    assert bayescl("evaluate run --data bought.csv").status == 0
    said = "interactions left out (used in training)"
    assert said in Path("run/evaluation.json").read_text()


def test_lists_leave_out_what_a_user_has_in_any_part_and_what_is_excluded(bayescl, recommender):
    assert bayescl("recommend run --all -k 24 --out lists.csv").status == 0
    has = dict(pl.read_csv("bought.csv").group_by("customer").agg("product").rows())
    for user, items in pl.read_csv("lists.csv").group_by("user").agg("item").rows():
        assert not set(has[user]) & set(items), user
        assert len(has[user]) + len(items) == 24
    assert bayescl("recommend run --all -k 24 --allow-known --out all.csv").status == 0
    assert len(pl.read_csv("all.csv")) == 48 * 24


def test_a_folder_moved_away_without_its_data_serves_as_before(
    bayescl, recommender, tmp_path, monkeypatch
):
    before = bayescl("recommend run --user u-4 -k 5").out
    assert bayescl("embed run --of users --out users.parquet").status == 0
    target = tmp_path / "machine" / "moved"
    shutil.move("run", target)
    Path("bought.csv").unlink()
    monkeypatch.chdir(target.parent)
    assert bayescl("recommend moved --user u-4 -k 5").out == before
    assert bayescl("embed moved --of users --out users.parquet").status == 0
    there = pl.read_parquet("users.parquet")
    assert there.equals(pl.read_parquet(tmp_path / "users.parquet"))
    assert set(there["id"]) == {f"u-{number}" for number in range(48)}
    assert bayescl("embed moved --of items --out items.npy").status == 0
    assert bayescl("evaluate moved").status == 0
    assert bayescl("report moved").status == 0


def test_a_broken_recommender_goes_on_from_what_it_remembers(bayescl, recommender):
    whole = Result.read_file(Path("run/result.json")).row.scores
    Path("run/result.json").unlink()
    Path("bought.csv").unlink()
    assert bayescl("train ranking --out run --resume").status == 0
    assert Result.read_file(Path("run/result.json")).row.scores == whole


def test_a_run_is_evaluated_on_one_user_and_names_ids_that_it_does_not_know(bayescl, recommender):
    def table(user: str, items: str) -> None:
        rows = [f"{user},{items} {number},5" for number in range(24)]
        Path("other.csv").write_text("\n".join(["customer,product,stars", *rows]))

    table("u-3", "film")  # every item
    assert bayescl("evaluate run --data other.csv").status == 0
    assert 0 < Result.read_file(Path("run/evaluation.json")).sizes["other.csv"] < 24
    unknown = "other.csv has no interaction of a user and an item that the run knows: "
    table("u-3.0", "film")
    expected = f"{unknown}1 of 1 users are unknown (u-3.0; u-3 is known)"
    assert bayescl("evaluate run --data other.csv").complaint == expected
    table("u-3", "tune")
    expected = f"{unknown}24 of 24 items are unknown (tune 0)"
    assert bayescl("evaluate run --data other.csv").complaint == expected


def test_ids_in_csv_files_are_not_formulas(bayescl, bought):
    formulas = {"u-3,": "=1+1,", "u-4,": "-4,", "film 5,": '"@SUM(A1)",'}
    text = bought.read_text()
    for plain, formula in formulas.items():
        text = text.replace(plain, formula)
    bought.write_text(text)
    assert bayescl(f"train ranking {OPTIONS} --out run").status == 0
    assert bayescl("recommend run --all -k 24 --out lists.csv").status == 0
    lists = pl.read_csv("lists.csv", infer_schema=False)
    assert {"'=1+1", "-4", "u-5"} < {*lists["user"]}
    assert "'@SUM(A1)" in {*lists["item"]}
    assert bayescl("recommend run --all --out lists.parquet").status == 0
    assert "=1+1" in {*pl.read_parquet("lists.parquet")["user"]}


def test_links_are_written_through(bayescl, recommender):
    Path("link.npy").symlink_to("target.npy")
    assert bayescl("embed run --out link.npy").status == 0
    assert Path("link.npy").is_symlink()
    assert np.load("target.npy").shape == (24, 8)
    Path("empty").mkdir()
    Path("link").symlink_to("empty")
    assert bayescl("export run --to link").status == 0
    assert Path("empty/model.json").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "line",
    [
        "embed run --of users --out e.npy",
        "embed run --of users --out e.parquet",
        "recommend run --all --out e.csv",
    ],
)
def test_a_full_disk_is_told_in_one_line(bayescl, recommender, monkeypatch, line):
    fill_the_disk(monkeypatch, "e.", after=0)
    file = line.split()[-1]
    assert bayescl(line).complaint == f"cannot write {file}: No space left on device"


@pytest.fixture
def photos(bayescl, pictures) -> str:
    """Options of a run on a folder of small images, two classes of fifteen."""
    pictures("photos", ("cats", "dogs"), 15)
    return "--data photos --batch_size 10 --width 4 --epochs 2 --device cpu"


@pytest.fixture
def encoder(trained, photos) -> str:
    """A finished run on the photos."""
    return trained("photos", f"train images {photos}")


def test_images_that_came_went_or_changed_are_refused_by_count(bayescl, encoder, tmp_path):
    assert bayescl("evaluate run").status == 0
    shutil.copy("photos/cats/03.png", "photos/cats/further.png")
    outcome = bayescl("evaluate run")
    assert "photos: images changed since training: 1 added" in outcome.complaint
    Path("photos/cats/further.png").unlink()
    shutil.copy("photos/cats/04.png", "photos/dogs/04.png")
    for command in ("evaluate run", "inspect run", "embed run --out e.npy"):
        assert "1 changed" in bayescl(command).complaint
    assert bayescl("evaluate run --data photos").status == 0
    Path("run/result.json").unlink()
    assert "1 changed" in bayescl("train images --out run --resume").complaint


def test_an_encoder_loads_without_its_images_and_embeds_as_the_run_did(bayescl, encoder):
    assert bayescl("embed run --of train --out e.parquet").status == 0
    frame = pl.read_parquet("e.parquet")
    for image, name in frame.select("image", "class").rows():
        assert image.startswith(f"{name}/")
    images = [np.asarray(Image.open(Path("photos", file))) for file in frame["image"]]
    pixels = np.stack(images).transpose(0, 3, 1, 2)
    shutil.rmtree("photos")
    loaded = library.load("run")
    features = loaded.embed(pixels)
    np.testing.assert_allclose(features, frame["embedding"].to_numpy(), rtol=1e-4, atol=1e-5)
    assert isinstance(loaded.encoder, torch.nn.Module)
    assert not loaded.encoder.training
    torch.testing.assert_close(loaded.embed(torch.from_numpy(pixels / 255)), features)
    with pytest.raises(ValueError, match=r"must have shape \[3, 12, 12\] each"):
        loaded.embed(np.zeros((2, 1, 5, 5)))


def test_an_exported_encoder_works_where_the_library_cannot_be_imported(bayescl, encoder):
    assert bayescl("export run --to plain").status == 0
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 12, 12), dtype=np.uint8)
    np.save("pixels.npy", pixels)
    program = (
        "import sys\nsys.modules['bayescl'] = None\nimport numpy, torch\n"
        "encode = torch.export.load('plain/encoder.pt2').module()\n"
        "features = encode(torch.from_numpy(numpy.load('pixels.npy')))\n"
        "numpy.save('features.npy', features.detach().numpy())\n"
        "one = encode(torch.from_numpy(numpy.load('pixels.npy')[:1]))\n"
        "assert one.shape == features[:1].shape\n"
    )
    alone = {**os.environ, "PYTHONPATH": ""}
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=alone)
    expected = library.load("run").embed(pixels)
    np.testing.assert_allclose(np.load("features.npy"), expected, rtol=1e-4, atol=1e-5)


def test_names_that_are_not_utf8_are_escaped(bayescl, photos):
    Path("photos/cats").rename(os.fsdecode(b"photos/c\xe4ts"))
    for copy in (b"photos/dogs/copy\xe9.png", b"photos/dogs/=copy\xe9.png"):
        shutil.copy("photos/dogs/04.png", os.fsdecode(copy))
    assert bayescl(f"train images {photos} --out run").status == 0
    copies = pl.read_csv("run/copies.csv")
    assert {r"dogs/copy\xe9.png", r"dogs/=copy\xe9.png"} < {*copies["image"]}
    assert bayescl("embed run --of train --out e.parquet").status == 0
    frame = pl.read_parquet("e.parquet")
    assert {*frame["class"]} == {r"c\xe4ts", "dogs"}

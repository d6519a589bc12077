import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bayescl_lab.images import decoding
from bayescl_lab.images import folder as folder_module
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.folder import load_folder
from bayescl_lab.images.table import ImageTable

RNG = np.random.default_rng(0)


def colors(height: int = 8, width: int = 8) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(pixels: np.ndarray, path: Path, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def make_folder(root: Path, counts: dict[str, int]) -> list[np.ndarray]:
    """Images of random colors in class folders; returns their pixels in reading order."""
    images = []
    for place, count in counts.items():
        for number in range(count):
            images.append(colors())
            save(images[-1], root / place / f"{number:03}.png")
    return images


def pixels_of(store) -> list[bytes]:
    return [image.permute(1, 2, 0).numpy().tobytes() for image in store.items]


def bytes_of(images: list[np.ndarray]) -> list[bytes]:
    return [image.tobytes() for image in images]


def test_class_folders_become_labels_and_every_pixel_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_BLOCK", 3)  # more images than one task
    images = make_folder(tmp_path, {"ant": 3, "bee": 2, "bee/more": 2})
    store, is_test, remarks = load_folder(tmp_path)
    assert pixels_of(store) == bytes_of(images)
    assert store.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert store.class_names == ("ant", "bee")
    assert store.domains is None
    assert not is_test.any()
    assert remarks == []


@pytest.mark.parametrize("name", ["test", "val"])
def test_a_test_part_is_kept_as_it_is_and_its_unlabeled_images_judge_nothing(tmp_path, name):
    train = {"train/ant": 4, "train/bee": 3, "train/cow": 4}
    test = {f"{name}/ant": 2, f"{name}/cow": 1, f"{name}/unlabeled": 3}
    images = make_folder(tmp_path, {**train, **test})
    parts = load_images(str(tmp_path))
    assert pixels_of(parts.train) == bytes_of(images[:11])
    assert pixels_of(parts.evaluation) == bytes_of(images[11:])
    assert parts.evaluation.labels.tolist() == [0, 0, 2, -1, -1, -1]
    assert parts.train.class_names == parts.evaluation.class_names == ("ant", "bee", "cow")
    assert len(parts.labeled()[1]) == 3


def test_images_in_the_folder_unlabeled_have_no_label_and_only_train(tmp_path):
    images = make_folder(tmp_path, {"ant": 10, "unlabeled": 4, "unlabeled/more": 1, "wasp": 20})
    parts = load_images(str(tmp_path))
    assert parts.train.class_names == ("ant", "wasp")
    assert (parts.train.labels + 1).bincount().tolist() == [5, 7, 14]
    assert parts.evaluation.labels.bincount().tolist() == [3, 6]
    unlabeled = parts.train.subset((parts.train.labels == -1).nonzero().squeeze(1))
    assert pixels_of(unlabeled) == bytes_of(images[10:15])
    assert unlabeled.ids.tolist()[-1] == "unlabeled/more/000.png"
    assert parts.remarks == (
        f"{tmp_path}: 5 of 35 images have no label: they are used only for training",
    )
    assert sorted(pixels_of(parts.train) + pixels_of(parts.evaluation)) == sorted(bytes_of(images))
    assert len(parts.labeled()[0]) == 21
    chosen = load_images(str(tmp_path), evaluate_on="validation")
    assert (chosen.train.labels == -1).sum() == 5
    assert (chosen.evaluation.labels >= 0).all()
    for loose in (tmp_path / "ant", tmp_path / "unlabeled" / "more"):
        parts = load_images(str(loose))
        assert (parts.train.class_names, parts.has_labels) == ((), False)
    with pytest.raises(ValueError, match=r"the images have no labels$"):
        parts.train.labeled()


def test_hidden_and_foreign_files_and_circles_are_passed_over(tmp_path):
    make_folder(tmp_path, {"ant": 2, "cow": 2, ".cache": 2, "__MACOSX": 1})
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "ant" / "._000.png").write_bytes(b"resource fork")
    (tmp_path / "ant" / "notes.txt").write_text("words")
    (tmp_path / "cow" / "all").symlink_to(tmp_path)
    (tmp_path / "gone.png").symlink_to("nowhere.png")
    (tmp_path / "ant").rename(tmp_path / ".ant")
    (tmp_path / "ant").symlink_to(".ant")
    train, _, (remark,) = load_folder(tmp_path)
    assert (len(train), train.class_names) == (4, ("ant", "cow"))
    assert remark.startswith(f"{tmp_path}: 2 files not read: .md (1), .txt (1), such as ")


@pytest.mark.parametrize("damage", ["header", "body", "empty"])
def test_damaged_images_are_left_out_and_counted_once_in_the_log(tmp_path, damage, caplog):
    images = make_folder(tmp_path, {"ant": 4, "bee": 4})
    victim = tmp_path / "ant" / "001.png"
    content = victim.read_bytes()
    victim.write_bytes({"header": b"no image", "body": content[:-60], "empty": b""}[damage])
    store, _, (remark,) = load_folder(tmp_path)
    assert pixels_of(store) == bytes_of(images[:1] + images[2:])
    assert store.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert remark.startswith(f"{tmp_path}: 1 of 8 files left out: {victim} (")
    for _ in range(2):
        assert load_images(str(tmp_path)).remarks == (remark,)
    assert caplog.messages == [remark]


def test_many_damaged_images_are_counted_and_too_many_are_refused(tmp_path):
    make_folder(tmp_path, {"train/ant": 12, "test/ant": 2})
    files = sorted(tmp_path.rglob("*.png"))
    for file in files[-7:]:
        file.write_bytes(b"nothing")
    (remark,) = load_folder(tmp_path)[2]
    assert "7 of 14 files left out" in remark
    assert remark.count(".png") == 3
    for file in files[:2]:  # of the test split
        file.write_bytes(b"nothing")
    message = r"no file of the test split is readable: test/ant/000.png \(not an image\)"
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"ant": 0}, "contains no images"),
        ({"ant": 1, ".": 1}, r"both in class folders \(ant, ...\) and beside them \(000.png"),
        ({"train/ant": 1, "test/bee": 1}, "the training split has no images of bee"),
        ({"train/ant": 1, "test": 1}, "no item of the test split has a label"),
        ({"train/ant": 1}, "1 labeled image cannot be split into two parts"),
    ],
)
def test_folders_whose_form_does_not_fit_are_refused(tmp_path, counts, message):
    (tmp_path / "ant").mkdir() if counts == {"ant": 0} else None
    make_folder(tmp_path, counts)
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path))


def test_gray_images_have_one_channel_unless_another_has_colors(tmp_path):
    gray = colors()[:, :, 0]
    gray[0, :2] = 0, 255
    save(gray, tmp_path / "ant" / "a.png")
    save((gray > 127), tmp_path / "ant" / "b.png")
    train, _, _ = load_folder(tmp_path)
    assert train.item_shape == (1, 8, 8)
    assert torch.equal(train.items[0, 0], torch.from_numpy(gray))
    assert torch.equal(train.items[1, 0], torch.from_numpy((gray > 127) * np.uint8(255)))
    transparent = np.dstack([gray, gray, gray, np.full((8, 8), 90, np.uint8)])
    save(transparent, tmp_path / "ant" / "d.png")
    save(transparent[..., 2:], tmp_path / "ant" / "e.png")
    mixed, _, remarks = load_folder(tmp_path)
    assert f"{tmp_path}: the transparency of 2 images is dropped" in remarks
    assert mixed.item_shape == (3, 8, 8)
    for row in (0, 2, 3):
        assert torch.equal(mixed.items[row], train.items[0].expand(3, 8, 8))


def test_files_of_several_pages_are_counted_and_named_and_the_first_page_is_read(tmp_path):
    pages = [Image.fromarray(colors()) for _ in range(3)]
    for name in ("a.tif", "b.gif"):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "c.tif")
    train, _, remarks = load_folder(tmp_path)
    assert len(train) == 3
    assert pixels_of(train)[0] == pages[0].tobytes()
    (remark,) = remarks
    assert remark.endswith(
        "only the first page of 2 files is read: a.tif (3 pages), b.gif (3 pages)"
    )


def test_folders_may_be_domains(tmp_path):
    make_folder(tmp_path, dict.fromkeys(("scope1", "scope2"), 3))
    train, _, remarks = load_folder(tmp_path, folders="domains")
    assert (train.class_names, train.domain_names) == ((), ("scope1", "scope2"))
    assert train.domains.tolist() == [0, 0, 0, 1, 1, 1]
    assert train.labels.tolist() == [-1] * 6
    assert remarks == []


@pytest.mark.parametrize(
    ("sizes", "kept", "resized"),
    [
        ([(8, 8), (8, 12), (20, 8), (30, 30)], (8, 8), 3),
        ([(5, 7), (5, 7)], (5, 7), 0),
        ([(600, 5), (600, 5)], (5, 5), 2),
        ([(300, 300), (310, 310)], (224, 224), 2),
    ],
)
def test_one_size_is_kept_and_others_become_squares_of_the_most_frequent_shorter_side(
    tmp_path, sizes, kept, resized
):
    for number, size in enumerate(sizes):
        save(colors(*size), tmp_path / "ant" / f"{number}.png")
    store, _, remarks = load_folder(tmp_path)
    assert store.item_shape == (3, *kept)
    said = f"{resized} of {len(sizes)} images scaled and cropped to {kept[1]} x {kept[0]} pixels"
    assert remarks == ([f"{tmp_path}: {said}"] if resized else [])
    if kept == (8, 8):
        middle = np.asarray(Image.open(tmp_path / "ant" / "1.png"))[:, 2:10]
        assert pixels_of(store)[1] == np.ascontiguousarray(middle).tobytes()
    assert load_folder(tmp_path, image_size=40)[0].item_shape == (3, 40, 40)


def test_images_larger_than_the_memory_are_refused_with_advice(tmp_path, monkeypatch):
    make_folder(tmp_path, {"ant": 3})
    monkeypatch.setattr(folder_module, "usable_memory", lambda: 100)
    with pytest.raises(ValueError, match=r"the images need 0.0 GB, .* pass a smaller --image-size"):
        load_folder(tmp_path)


def test_names_that_are_not_utf_8_or_composed_otherwise_are_valid_text(tmp_path):
    for number, name in enumerate((b"caf\xe9.png", "cafe\u0301/\u00e9.png".encode())):
        path = tmp_path / os.fsdecode(b"a" if number == 0 else b"") / os.fsdecode(name)
        save(colors(), path)
    (tmp_path / "a.csv").write_text("file,label\n\u00e9.png,bee\n")
    table = ImageTable.read(tmp_path / "a.csv")
    store, _, _ = load_folder(tmp_path, table=table)
    assert store.ids.tolist() == ["a/caf\\xe9.png", "caf\u00e9/\u00e9.png"]
    assert store.labels.tolist() == [-1, 0]
    assert load_folder(tmp_path)[0].class_names == ("a", "caf\u00e9")

"""Published image data sets: location, size and terms of use."""

from __future__ import annotations

from bayescl_lab._downloads import DataSource, RemoteFile

_TORONTO = "https://www.cs.toronto.edu/~kriz"
_CIFAR_TERMS = "no licence stated; cite Krizhevsky, Learning Multiple Layers of Features, 2009"


def _images(name: str, title: str, url: str, size: int, md5: str, **texts: str) -> DataSource:
    """A data set of one archive."""
    file = RemoteFile(url, url.rpartition("/")[2], size, f"md5:{md5}")
    return DataSource(name, "images", title, (file,), **texts)


DIGITS = DataSource(
    "digits",
    "images",
    "handwritten digits: 1,797 drawings of 8 pixels, 10 classes",
    (),
    terms="CC BY 4.0; cite Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, 1998",
    homepage="https://archive.ics.uci.edu/dataset/80",
)

SOURCES: tuple[DataSource, ...] = (
    _images(
        "cifar10",
        "CIFAR-10: 50,000 + 10,000 photographs of 32 pixels, 10 classes",
        f"{_TORONTO}/cifar-10-binary.tar.gz",
        170_052_171,
        "c32a1d4ab5d03f1284b67883e8d87530",
        terms=_CIFAR_TERMS,
        homepage=f"{_TORONTO}/cifar.html",
    ),
    _images(
        "cifar100",
        "CIFAR-100: 50,000 + 10,000 photographs of 32 pixels, 100 classes",
        f"{_TORONTO}/cifar-100-binary.tar.gz",
        168_513_733,
        "03b5dce01913d631647c71ecec9e9cb8",
        terms=_CIFAR_TERMS,
        homepage=f"{_TORONTO}/cifar.html",
    ),
    _images(
        "stl10",
        "STL-10: 5,000 + 8,000 photographs of 96 pixels, 10 classes; 100,000 without a label",
        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
        2_640_397_119,
        "91f7769df0f17e558f3565bffb0c7dfb",
        terms="no licence stated, images from ImageNet; cite Coates, Ng and Lee, AISTATS 2011",
        homepage="https://cs.stanford.edu/~acoates/stl10/",
    ),
    _images(
        "tiny-imagenet",
        "Tiny-ImageNet-200: 100,000 + 10,000 photographs of 64 pixels, 200 classes",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        248_100_043,
        "90528d7ca1a48142e341f4ef8d21d0de",
        terms="ImageNet's terms: non-commercial research and education",
        homepage="http://cs231n.stanford.edu",
    ),
)
"""Every image data set that can be fetched."""

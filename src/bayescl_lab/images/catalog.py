"""Published image data sets: location, size and terms of use."""

from __future__ import annotations

from bayescl_lab._downloads import DataSource, RemoteFile

DIGITS = DataSource(
    name="digits",
    kind="images",
    title="handwritten digits: 1,797 drawings of 8 pixels, 10 classes",
    files=(),
    terms="CC BY 4.0; cite Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, 1998",
    homepage="https://archive.ics.uci.edu/dataset/80",
    instructions="part of scikit-learn: nothing to fetch",
)

CIFAR10 = DataSource(
    name="cifar10",
    kind="images",
    title="CIFAR-10: 50,000 + 10,000 photographs of 32 pixels, 10 classes",
    files=(
        RemoteFile(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            filename="cifar-10-binary.tar.gz",
            size=170_052_171,
            checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    terms="no licence stated; cite Krizhevsky, Learning Multiple Layers of Features, 2009",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    instructions="the binary version; unpacked, it is the folder cifar-10-batches-bin",
)

CIFAR100 = DataSource(
    name="cifar100",
    kind="images",
    title="CIFAR-100: 50,000 + 10,000 photographs of 32 pixels, 100 classes",
    files=(
        RemoteFile(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            filename="cifar-100-binary.tar.gz",
            size=168_513_733,
            checksum="md5:03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    terms="no licence stated; cite Krizhevsky, Learning Multiple Layers of Features, 2009",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    instructions="the binary version; unpacked, it is the folder cifar-100-binary",
)

STL10 = DataSource(
    name="stl10",
    kind="images",
    title="STL-10: 5,000 + 8,000 photographs of 96 pixels, 10 classes; 100,000 without a label",
    files=(
        RemoteFile(
            url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            filename="stl10_binary.tar.gz",
            size=2_640_397_119,
            checksum="md5:91f7769df0f17e558f3565bffb0c7dfb",
        ),
    ),
    terms="no licence stated, images from ImageNet; cite Coates, Ng and Lee, AISTATS 2011",
    homepage="https://cs.stanford.edu/~acoates/stl10/",
    instructions="unpacked, it is the folder stl10_binary",
)

TINY_IMAGENET = DataSource(
    name="tiny-imagenet",
    kind="images",
    title="Tiny-ImageNet-200: 100,000 + 10,000 photographs of 64 pixels, 200 classes",
    files=(
        RemoteFile(
            url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            filename="tiny-imagenet-200.zip",
            size=248_100_043,
            checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
        ),
    ),
    terms="ImageNet's terms: non-commercial research and education",
    homepage="http://cs231n.stanford.edu",
    instructions="unpacked, it is the folder tiny-imagenet-200",
)

SOURCES: tuple[DataSource, ...] = (CIFAR10, CIFAR100, STL10, TINY_IMAGENET)
"""Every image data set that can be fetched."""

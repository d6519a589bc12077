"""Decode image files of any mode and size into one array, and report unreadable files."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from bayescl_lab._cores import usable_cores

LARGEST_KEPT, LARGEST_DEFAULT = 512, 224
"""Largest side that is not resized, and largest default side after resizing, in pixels."""

Reasons = dict[Path, str]
"""Unreadable files in order, with the reasons."""

_LARGEST, _PLAUSIBLE, _RATIO = Image.MAX_IMAGE_PIXELS or 2**26, 2**24, 1100
"""Largest number of pixels, number allowed for any file, and largest number per byte of file.

Memory is allocated before missing pixels are detected.
"""

_GRAY = frozenset(("1", "L", "LA"))
_METADATA = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"}  # with an orientation
_LATE = (b"eXIf", b"XML:com.adobe.xmp", b"Raw profile type")  # the same in PNG files
_BLOCK = 64  # images per task of a thread
_TAIL = 1 << 16  # bytes

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Header(NamedTuple):
    """Size and color of an image according to the header of its file."""

    width: int
    height: int
    is_gray: bool
    has_alpha: bool = False
    pages: int = 1


@cache
def image_suffixes() -> frozenset[str]:
    """Return the suffixes of all formats that Pillow opens, in lower case.

    EPS is not among them: Pillow runs another program on such files.
    """
    known = Image.registered_extensions().items()
    formats = {*Image.OPEN, "MPO"} - {"EPS"}
    return frozenset(suffix for suffix, name in known if name in formats)


def read_headers(files: Sequence[Path]) -> dict[Path, Header]:
    """Read the headers of image files, without pixels."""
    results = zip(files, _in_threads(_header, files), strict=True)
    return {path: result for path, result in results if isinstance(result, Header)}


def common_shape(headers: Sequence[Header], image_size: int | None = None) -> tuple[int, int, int]:
    """Choose channels, height and width for all images: one channel if every image is gray.

    Images are resized to squares of side ``image_size``. By default, images are not resized if all
    have the same size of at most 512 pixels. Otherwise, the side of the squares is the most
    frequent length of the images' shorter sides, but at most 224 pixels.

    Example:
        >>> common_shape([Header(32, 32, True), Header(32, 48, False)])
        (3, 32, 32)
    """
    channels = 1 if all(header.is_gray for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if image_size is not None:
        height = width = image_size
    elif len(sizes) == 1 and max(max(sizes)) <= LARGEST_KEPT:
        ((height, width),) = sizes
    else:
        shorter = Counter(min(header.height, header.width) for header in headers)
        side = max(shorter, key=lambda side: (shorter[side], side), default=1)
        height = width = min(side, LARGEST_DEFAULT)
    return channels, height, width


def decode_into(pixels: NDArray[np.uint8], files: Sequence[Path]) -> Reasons:
    """Decode each file into its row of an array, and return the unreadable files.

    Pillow turns images upright and converts all color modes. An image of another size is scaled to
    cover the target and cropped at the center. Transparency is dropped, and color profiles are not
    applied. Only the first page is read. Rows of unreadable files are undefined.
    """

    def decode_row(row: int) -> None:
        pixels[row] = _decode(files[row], pixels.shape[1:])

    results = enumerate(_in_threads(decode_row, range(len(files))))
    return {files[row]: reason for row, reason in results if reason is not None}


def _in_threads(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task]
) -> Iterator[_Result | str]:
    """Call a function in threads; yield results, or reasons for unreadable files, in order."""

    def attempt(task: _Task) -> _Result | str:
        try:
            return function(task)
        except Exception as error:  # any exception of Pillow
            return _reason(error)

    blocks = [tasks[begin : begin + _BLOCK] for begin in range(0, len(tasks), _BLOCK)]
    with warnings.catch_warnings(), ThreadPoolExecutor(usable_cores()) as pool:
        warnings.filterwarnings("ignore", module="PIL")  # damage is reported elsewhere
        for results in pool.map(lambda block: list(map(attempt, block)), blocks):
            yield from results


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image without reading its pixels; raise if it is too large or not of 8 bits."""
    with path.open("rb") as file, Image.open(file) as image:
        (width, height), size = image.size, path.stat().st_size
        if width * height > min(_LARGEST, max(_PLAUSIBLE, _RATIO * size)):
            raise ValueError(
                f"{width} x {height} pixels in {size:,} bytes: the file is too large or damaged"
            )
        # Pillow would cut off the low bytes of colors, and clip gray values.
        is_deep_color = image.format in ("PNG", "TIFF") and ";16" in str(getattr(image, "tile", ""))
        if is_deep_color or image.mode.startswith(("I", "F")):
            raise ValueError("pixels of more than 8 bits are not supported")
        yield image


def _header(path: Path) -> Header:
    """Return size and color of an image."""
    with _opened(path) as image:
        width, height = image.size
        if image.format == "PNG" and _has_late_metadata(path):
            image.load()
        # The method of PNG files would read all pixels. TIFF files have the upright size.
        if not _METADATA.isdisjoint(image.info) and image.format != "TIFF":
            turn = Image.Image.getexif(image).get(ExifTags.Base.Orientation)
            width, height = (height, width) if turn in (5, 6, 7, 8) else (width, height)
        # Cameras add previews to JPEG files (MPO), which are not pages.
        pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        is_gray, has_alpha = image.mode in _GRAY, image.has_transparency_data
        return Header(width, height, is_gray, has_alpha, pages)


def _decode(path: Path, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Decode the pixels ``[channels, height, width]`` of one file."""
    channels, height, width = shape
    size = width, height
    with _opened(path) as image:
        # A JPEG may be decoded at a half or a quarter of its size, if that is enough.
        image.draft(None, size)
        image.load()
        if not _METADATA.isdisjoint(image.info):
            ImageOps.exif_transpose(image, in_place=True)
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        mode = "L" if channels == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        if image.size != size:
            image = ImageOps.fit(image, size, method=Image.Resampling.BICUBIC)
        array = np.asarray(image, dtype=np.uint8)
    return array[None] if channels == 1 else array.transpose(2, 0, 1)


def _has_late_metadata(path: Path) -> bool:
    """Return whether the end of a PNG file may hold an orientation."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        end = file.read()
    return any(kind in end for kind in _LATE)


def _reason(error: Exception) -> str:
    """Describe briefly why a file cannot be read, without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    strerror = getattr(error, "strerror", None)
    return (strerror or str(error).partition("\n")[0] or type(error).__name__).lower()

"""Decode image files of any mode and size into one array, and say which cannot be read."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from bayescl_lab._cores import usable_cores

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Suffixes of image files, in lower case; other files are not images."""

LARGEST_KEPT, LARGEST_DEFAULT = 512, 224
"""Without a given size: the largest common size that is kept, and the largest new size, in
pixels."""

Reasons = dict[Path, str]
"""Files that cannot be read, in order, each with the reason."""

_LARGEST, _PLAUSIBLE, _RATIO = Image.MAX_IMAGE_PIXELS or 2**26, 2**24, 1100
"""Pixels of the largest image that is read; beyond 16 million no file may promise more than 1,100
times its own size, since the pixels take memory before they turn out to be missing."""

_GREY = frozenset(("1", "L", "LA", "I;16", "I;16B", "I;16L", "I"))
_BLOCK = 64  # images per task of a thread

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Header(NamedTuple):
    """Size and kind of an image file, by its header."""

    width: int
    height: int
    is_grey: bool
    is_deep: bool = False  # grey values of more than 8 bits
    is_cut: bool = False  # colours of 16 bits, of which Pillow reads the upper 8
    pages: int = 1


@dataclass(frozen=True)
class ImageFormat:
    """Channels (1 for grey values, 3 for colours), height and width of every decoded image.

    ``values`` are those of grey images of 16 bits that become black and white.
    """

    channels: int
    height: int
    width: int
    values: tuple[int, int] = (0, 65535)

    def __iter__(self) -> Iterator[int]:
        """Channels, height and width."""
        return iter((self.channels, self.height, self.width))


def read_headers(files: Sequence[Path]) -> tuple[dict[Path, Header], Reasons]:
    """The headers of files that are images, read without their pixels, and the other files."""
    results = list(zip(files, _in_threads(_header, files), strict=True))
    headers = {path: result for path, result in results if isinstance(result, Header)}
    return headers, {path: result for path, result in results if isinstance(result, str)}


def common_format(headers: Sequence[Header], image_size: int | None = None) -> ImageFormat:
    """The format for all images, grey only if every image is.

    They become squares of side ``image_size``. Default: images of a single size of at most 512
    pixels keep it; others become squares with the most frequent shorter side, at most 224
    pixels.

    Example:
        >>> common_format([Header(32, 32, True), Header(32, 48, False)])
        ImageFormat(channels=3, height=32, width=32, values=(0, 65535))
    """
    channels = 1 if all(header.is_grey for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if image_size is not None:
        height = width = image_size
    elif len(sizes) == 1 and max(max(sizes)) <= LARGEST_KEPT:
        ((height, width),) = sizes
    else:
        shorter = Counter(min(header.height, header.width) for header in headers)
        side = max(shorter, key=lambda side: (shorter[side], side))
        height = width = min(side, LARGEST_DEFAULT)
    return ImageFormat(channels, height, width)


def decode_into(
    pixels: NDArray[np.uint8],
    files: Sequence[Path],
    wanted: ImageFormat,
    threads: int | None = None,
) -> Reasons:
    """Decode files into the first rows of an array, and return those that could not be read.

    An image of another size is scaled to cover the target and cropped at the centre. Palettes and
    CMYK are converted to RGB, transparency is dropped, and grey values of 16 bits are scaled to 8.
    Of several pages the first is read. Rows after the readable images are undefined.
    """

    def decode_row(row: int) -> None:
        pixels[row] = _decode(files[row], wanted)

    reasons: Reasons = {}
    target = 0
    for row, reason in enumerate(_in_threads(decode_row, range(len(files)), threads)):
        if reason is not None:
            reasons[files[row]] = reason
            continue
        if target < row:  # close the gap
            pixels[target] = pixels[row]
        target += 1
    return reasons


def value_range(files: Sequence[Path]) -> tuple[int, int]:
    """The smallest and largest grey value of those images of 16 bits that can be read."""

    def extremes(path: Path) -> tuple[int, int]:
        with path.open("rb") as file, Image.open(file) as image:
            values = _grey_values(image)
            return int(values.min()), int(values.max())

    found = [it for it in _in_threads(extremes, files) if not isinstance(it, str)]
    return min((low for low, _ in found), default=0), max((high for _, high in found), default=1)


def _in_threads(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int | None = None
) -> Iterator[_Result | str]:
    """Results in order, or why a file cannot be read. Pillow releases the interpreter lock."""

    def attempt(task: _Task) -> _Result | str:
        try:
            return function(task)
        except Exception as error:  # whatever damage makes Pillow raise
            return _reason(error)

    blocks = [tasks[begin : begin + _BLOCK] for begin in range(0, len(tasks), _BLOCK)]
    with warnings.catch_warnings(), ThreadPoolExecutor(threads or usable_cores()) as pool:
        warnings.filterwarnings("ignore", module="PIL")  # damage is reported elsewhere
        for results in pool.map(lambda block: list(map(attempt, block)), blocks):
            yield from results


def _header(path: Path) -> Header:
    """Size and kind of an image."""
    with path.open("rb") as file, Image.open(file) as image:
        width, height = image.size
        size = path.stat().st_size
        if width * height > min(_LARGEST, max(_PLAUSIBLE, _RATIO * size)):
            raise ValueError(f"{width} x {height} pixels are too many for {size:,} bytes")
        if _orientation(image) >= 5:  # width and height swap when it is turned upright
            width, height = height, width
        # Cameras add previews to JPEG files (MPO), which are not pages.
        pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        is_deep = image.mode.startswith("I")
        is_cut = not is_deep and ";16" in str(image.tile)
        return Header(width, height, image.mode in _GREY, is_deep, is_cut, pages)


def _decode(path: Path, wanted: ImageFormat) -> NDArray[np.uint8]:
    """Pixels ``[channels, height, width]`` of one file."""
    size = wanted.width, wanted.height
    with path.open("rb") as file, Image.open(file) as image:
        # A JPEG may be decoded at a half or a quarter of its size, where that is enough.
        image.draft(None, size)
        if _orientation(image) != 1:
            image = ImageOps.exif_transpose(image)
        image = _with_channels(image, wanted)
    if image.size != size:
        image = ImageOps.fit(image, size, method=Image.Resampling.BICUBIC)
    array = np.asarray(image, dtype=np.uint8)
    return array[None] if wanted.channels == 1 else array.transpose(2, 0, 1)


def _with_channels(image: Image.Image, wanted: ImageFormat) -> Image.Image:
    """The image in 8 bits, grey or coloured; reads the pixels."""
    if image.mode.startswith("I"):  # 16 bits, which Pillow's own conversion would cut off at 255
        black, white = wanted.values
        scaled = (_grey_values(image) - black) * (255 / max(1, white - black))
        image = Image.fromarray(scaled.clip(0, 255).round().astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("floating-point pixels")
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    mode = "L" if wanted.channels == 1 else "RGB"
    if image.mode == mode:
        image.load()  # convert would copy the pixels
        return image
    return image.convert(mode)


def _grey_values(image: Image.Image) -> NDArray[np.int64]:
    """The values of a grey image of 16 bits."""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError("pixels of 32 bits")
    return values


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 if upright."""
    value = image.getexif().get(ExifTags.Base.Orientation, 1) if "exif" in image.info else 1
    return value if value in range(1, 9) else 1


def _reason(error: Exception) -> str:
    """The reason why a file cannot be read, in a few words without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    strerror = getattr(error, "strerror", None)
    return (strerror or str(error).partition("\n")[0] or type(error).__name__).lower()

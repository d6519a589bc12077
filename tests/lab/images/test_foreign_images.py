"""Images as phones, scanners and programs write them: every color is right, or they are refused.

A case is a name, a file and what must come out: four quarters of one color each, by default COLORS,
or words of a refusal.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from bayescl_lab.images.folder import load_folder

HEIGHT, WIDTH = 32, 48
COLORS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
GRAYS = np.array([[[0], [85]], [[170], [255]]], np.uint8)
EXIF_TURNS = {2: "m", 3: "rr", 4: "rrm", 5: "rrrm", 6: "r", 7: "rm", 8: "rrr"}
"""Turns to store a picture for each orientation: m mirrors it, r is a quarter to the left."""

XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-'
    b'syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
    b'tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
)


def picture(quarters: NDArray[Any] = COLORS, orientation: int = 1) -> NDArray[Any]:
    """Pixels of four quarters, as stored for an orientation."""
    pixels = quarters.repeat(HEIGHT // 2, 0).repeat(WIDTH // 2, 1)
    for turn in EXIF_TURNS.get(orientation, ""):
        pixels = pixels[:, ::-1] if turn == "m" else np.rot90(pixels)
    return np.ascontiguousarray(pixels)


RGB = Image.fromarray(picture())
GRAY = Image.fromarray(picture(GRAYS)[..., 0])


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """A file written by Pillow."""
    image.save(output := io.BytesIO(), kind, **options)
    return output.getvalue()


def exif(orientation: int) -> Image.Exif:
    """Metadata with an orientation."""
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG file."""
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def png(pixels: NDArray[Any], bits: int, *, before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG file of 1 to 16 bits, with chunks before and after the pixels."""
    height, width, channels = pixels.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    if bits < 8:
        places = np.arange(8 // bits)[::-1] * bits
        packed = (pixels.reshape(height, -1, 8 // bits) << places).sum(2).astype(np.uint8)
    else:
        packed = pixels.astype(">u2" if bits == 16 else "u1")
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in packed))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
    ends = chunk(b"IDAT", body) + after + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + before + ends


def _turned() -> Iterator[tuple[Any, ...]]:
    """Orientations in every form of metadata."""
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "jpg": ("JPEG", {"quality": 95, "subsampling": 0}),
        "tif": ("TIFF", {}),
        "png": ("PNG", {}),
        "webp": ("WEBP", {"lossless": True}),
        "avif": ("AVIF", {"quality": 95}),
    }
    for suffix, (kind, options) in kinds.items():
        for turn in range(1, 9):
            image = Image.fromarray(picture(orientation=turn))
            yield f"exif-{turn}.{suffix}", saved(image, kind, exif=exif(turn), **options)
    turned, pixels = Image.fromarray(picture(orientation=6)), picture(orientation=6)
    yield "exif-lzw.tif", saved(turned, "TIFF", exif=exif(6), compression="tiff_lzw")
    for suffix in ("jpg", "webp"):
        kind, options = kinds[suffix]
        yield f"xmp.{suffix}", saved(turned, kind, xmp=XMP, **options)
    with_xmp = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)
    yield "xmp-before.png", png(pixels, 8, before=with_xmp)
    yield "xmp-after.png", png(pixels, 8, after=with_xmp)
    yield "exif-after.png", png(pixels, 8, after=chunk(b"eXIf", exif(6).tobytes()[6:]))
    raw = exif(6).tobytes().hex()
    text = f"\nexif\n{len(raw) // 2:8}\n{raw}\n".encode()
    profile = b"Raw profile type exif\0\0" + zlib.compress(text)
    yield "text-profile.png", png(pixels, 8, before=chunk(b"zTXt", profile))
    yield "exif-0.jpg", saved(RGB, "JPEG", exif=exif(0), quality=95)
    yield "exif-9.jpg", saved(RGB, "JPEG", exif=exif(9), quality=95)
    pages: Any = {"save_all": True, "append_images": [GRAY.convert("RGB")]}
    yield "previews.mpo", saved(turned, "MPO", exif=exif(6), quality=95, **pages)
    gray_turned = Image.fromarray(picture(GRAYS, 8)[..., 0])
    yield "gray-exif.jpg", saved(gray_turned, "JPEG", exif=exif(8), quality=95), GRAYS


def _colors() -> Iterator[tuple[Any, ...]]:
    """Color modes and formats."""
    for suffix in ("jpg", "JPG", "jpeg", "jpe", "jfif", "Jpeg"):
        yield f"name.{suffix}", saved(RGB, "JPEG", quality=95)
    yield "really-a-jpeg.png", saved(RGB, "JPEG", quality=95)
    yield "progressive.jpg", saved(RGB, "JPEG", progressive=True, quality=95)
    yield "cmyk.jpg", saved(RGB.convert("CMYK"), "JPEG", quality=95)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    yield "profile.jpg", saved(RGB, "JPEG", icc_profile=srgb, quality=95)
    for compression in ("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "jpeg"):
        yield f"{compression}.tif", saved(RGB, "TIFF", compression=compression)
    for mode in ("RGBA", "CMYK", "LAB", "YCbCr", "P"):
        if mode == "LAB":
            profiles = [ImageCms.createProfile(name) for name in ("sRGB", "LAB")]
            image = ImageCms.profileToProfile(RGB, *profiles, outputMode="LAB")
        else:
            image = RGB.convert(mode)
        yield f"{mode}.tif", saved(image, "TIFF")
    yield "big.tif", saved(RGB, "TIFF", big_tiff=True)
    clear = RGB.copy()
    clear.putalpha(Image.fromarray(np.full((HEIGHT, WIDTH), 90, np.uint8)))
    yield "alpha.png", saved(clear, "PNG")
    yield "alpha.webp", saved(clear, "WEBP", lossless=True, exact=True)
    palette = RGB.convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
    yield "palette.png", saved(palette, "PNG")
    yield "palette-transparent.png", saved(palette, "PNG", transparency=0)
    yield "palette-4-bits.png", saved(palette, "PNG", bits=4)
    yield "transparent-color.png", saved(RGB, "PNG", transparency=(255, 0, 0))
    yield "palette.gif", saved(palette, "GIF")
    yield "transparent.gif", saved(palette, "GIF", transparency=0)
    pages: Any = {"save_all": True, "append_images": [GRAY.convert("RGB")]}
    for suffix, kind in {"gif": "GIF", "png": "PNG", "tif": "TIFF", "webp": "WEBP"}.items():
        lossless = {"lossless": True} if kind == "WEBP" else {}
        yield f"pages.{suffix}", saved(RGB, kind, **pages, **lossless)
    yield "lossy.webp", saved(RGB, "WEBP", quality=95)
    files = {"jp2": "JPEG2000", "j2k": "JPEG2000", "bmp": "BMP", "dib": "DIB", "tga": "TGA"}
    files |= {"ppm": "PPM", "pnm": "PPM", "pcx": "PCX", "sgi": "SGI", "rgb": "SGI"}
    files |= {"dds": "DDS", "qoi": "QOI"}
    for suffix, kind in files.items():
        yield f"format.{suffix}", saved(RGB, kind)
    yield "compressed.tga", saved(RGB, "TGA", compression="tga_rle")
    yield "alpha.bmp", saved(clear, "BMP")
    deep = picture(COLORS.astype(np.uint16) * 257)
    for pixels in (deep, np.dstack([deep, deep[..., :1]]), deep[..., :2], deep[..., :1]):
        yield f"16-bits-{pixels.shape[2]}.png", png(pixels, 16), "of more than 8 bits are not"


def _grays() -> Iterator[tuple[Any, ...]]:
    """Gray values of 1 to 32 bits."""
    two = np.array([[[0], [255]], [[255], [0]]], np.uint8)
    black_white = Image.fromarray(picture(two)[..., 0]).convert("1")
    for suffix, kind in {"png": "PNG", "bmp": "BMP", "pbm": "PPM", "xbm": "XBM"}.items():
        yield f"1-bit.{suffix}", saved(black_white, kind), two
    for compression in ("raw", "group3", "group4"):
        yield f"1-bit-{compression}.tif", saved(black_white, "TIFF", compression=compression), two
    for bits in (2, 4):
        small = picture(GRAYS // (255 // (2**bits - 1)))
        yield f"{bits}-bits.png", png(small, bits), GRAYS
    kinds = {"png": "PNG", "jpg": "JPEG", "tif": "TIFF", "pgm": "PPM"}
    kinds |= {"jp2": "JPEG2000", "tga": "TGA", "bmp": "BMP", "pcx": "PCX"}
    for suffix, kind in kinds.items():
        yield f"gray.{suffix}", saved(GRAY, kind), GRAYS
    yield "gray.gif", saved(GRAY, "GIF"), GRAYS.repeat(3, 2)
    yield "gray-alpha.png", saved(GRAY.convert("LA"), "PNG"), GRAYS
    yield "white-is-0.tif", saved(GRAY, "TIFF", tiffinfo={262: 0}), GRAYS
    whole = picture(GRAYS)[..., 0]
    for kind in (np.uint16, np.int32, np.float32):
        deep = saved(Image.fromarray(whole.astype(kind)), "TIFF")
        yield f"{kind.__name__}.tif", deep, "of more than 8 bits are not"


def _refused() -> Iterator[tuple[Any, ...]]:
    """Damaged files, and files that are not images."""
    jpeg, whole = saved(RGB, "JPEG"), saved(RGB, "PNG")
    yield "cut.jpg", jpeg[: len(jpeg) // 2], "no file of the training split is readable"
    yield "cut.png", whole[: len(whole) // 2], "no file of the training split is readable"
    yield "cut.tif", saved(RGB, "TIFF")[:400], "no file of the training split is readable"
    yield "cut.webp", saved(RGB, "WEBP")[:60], "no file of the training split is readable"
    yield "zeros.jpg", bytes(2000), "not an image"
    yield "empty.jpg", b"", "not an image"
    yield "page.jpg", b"<!DOCTYPE html><html>not found</html>", "not an image"
    yield "pointer.png", b"version https://git-lfs.github.com/spec/v1\n", "not an image"
    for name in ("photo.heic", "drawing.svg", "raw.cr2", "nothing"):
        yield name, jpeg, "contains no images, only "


CASES = [*_turned(), *_colors(), *_grays(), *_refused()]


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [(*case[:2], case[2:]) for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_foreign_image_is_read_rightly_or_refused(tmp_path, name, content, more):
    (tmp_path / name).write_bytes(content)
    (expected,) = more or [COLORS]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected) as refusal:
            load_folder(tmp_path)
        assert "\n" not in str(refusal.value)
        return
    pixels = load_folder(tmp_path)[0].items[0].permute(1, 2, 0).numpy().astype(float)
    assert pixels.shape == (HEIGHT, WIDTH, expected.shape[2])
    quarters = pixels.reshape(2, HEIGHT // 2, 2, WIDTH // 2, -1)[:, 2:-2, :, 2:-2].mean((1, 3))
    np.testing.assert_allclose(quarters, expected, atol=24 if "LAB" in name else 6)

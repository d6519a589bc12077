"""The encoder that a run on images trains, from its settings."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from torch import nn

from bayescl._randomness import Purpose, derived_seed, seeded
from bayescl.runs.images.settings import ImageSettings
from bayescl.vision.encoders import SmallConvEncoder
from bayescl.vision.torchvision_encoders import TorchvisionEncoder

TIMM = "timm:"
"""What names of networks of timm begin with."""


def build_encoder(settings: ImageSettings, image_shape: tuple[int, int, int]) -> nn.Module:
    """The encoder that the settings name, for images of that many channels and pixels.

    Raises:
        ValueError: if there is none of that name, or it is one of the user's own, which is only
            made where the user names it; see :func:`own_encoder`.
    """
    channels, *sides = image_shape
    name = settings.encoder
    if name == "small":
        return SmallConvEncoder(channels, settings.width, settings.stride)
    size = min(sides) if settings.view_size is None else settings.view_size
    if name.startswith(TIMM):
        try:
            from bayescl.integrations.timm import TimmEncoder
        except ImportError as error:
            raise ValueError(f"encoder {name}: {error}") from None
        return TimmEncoder(name.removeprefix(TIMM), channels=channels, image_size=size)
    if ":" in name:
        raise ValueError(
            f"the run has an encoder of its own, {name}: name it again with --encoder {name}, or "
            "give it as encoder= from Python"
        )
    return TorchvisionEncoder(name, channels=channels, image_size=size)


def own_encoder(name: str, seed: int = 0) -> nn.Module | None:
    """An encoder of the user's own by its place, such as "my_module:build"; else None.

    The function is called without arguments and returns a module that maps images to features.
    Python looks for the file in the working directory, too. Only names that the user typed come
    here: whoever reads a run's folder must not run what its settings name.

    Args:
        name: what the option says.
        seed: of the run, for the weights.

    Raises:
        ValueError: if there is no such function, or it makes no module.
    """
    if ":" not in name or name.startswith(TIMM):
        return None
    module, _, function = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()  # the file may be younger than this process
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"encoder {name}: {error}") from None
    finally:
        sys.path.remove(here)
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        found = build if isinstance(build, nn.Module) else build()
    if isinstance(found, nn.Module):
        return found
    raise ValueError(f"encoder {name} must make a torch.nn.Module, got {type(found).__name__}")

"""The encoder that a run on images trains, from its settings."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from torch import nn

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.encoders import SmallConvEncoder
from bayescl_lab.images.torchvision_encoders import TorchvisionEncoder
from bayescl_lab.runs.images.settings import ImageSettings

TIMM = "timm:"
"""Prefix of names of timm networks."""


def build_encoder(settings: ImageSettings, image_shape: tuple[int, int, int]) -> nn.Module:
    """The encoder named by the settings, for images of that many channels and pixels.

    Raises:
        ValueError: if the name is unknown, or it is a user's own encoder, which is only built if
            the user names it; see :func:`own_encoder`.
    """
    channels, *sides = image_shape
    name = settings.encoder
    if name == "small":
        return SmallConvEncoder(channels, settings.width, settings.stride)
    size = min(sides) if settings.view_size is None else settings.view_size
    if name.startswith(TIMM):
        try:
            from bayescl_lab.integrations.timm import TimmEncoder
        except ImportError as error:
            raise ValueError(f"encoder {name}: {error}") from None
        return TimmEncoder(name.removeprefix(TIMM), channels=channels, image_size=size)
    if ":" in name:
        raise ValueError(
            f"the run uses its own encoder: name it again with --encoder {name}, or pass encoder= "
            "in Python"
        )
    return TorchvisionEncoder(name, channels=channels, image_size=size)


def own_encoder(name: str, seed: int = 0) -> nn.Module | None:
    """Build a user's own encoder from a name such as "my_module:build"; None for other names.

    The function is called without arguments and returns a module that maps images to features.
    The working directory is searched too. Pass only names that the user typed: reading a run's
    folder must not execute code that its settings name.

    Args:
        name: value of the option.
        seed: seed of the weights.

    Raises:
        ValueError: if there is no such function, or it does not return a module.
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
    raise ValueError(f"encoder {name} must return a torch.nn.Module, got {type(found).__name__}")

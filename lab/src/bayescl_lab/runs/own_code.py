"""Functions and modules that a user names, such as "my_module:build"."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab._types import Config

if TYPE_CHECKING:
    from bayescl_lab.runs.encoder_settings import EncoderSettings


def own_object(what: str, name: str) -> Any:
    """Import an object from a name such as "my_module:build"; ``None`` for names without a colon.

    The working directory is searched too. Pass only names that the user typed, because reading a
    run's folder must not execute code.

    Raises:
        ValueError: if there is no such object. The message starts with ``what``.
    """
    if ":" not in name:
        return None
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()  # the file may have been written after this process started
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{what} {name}: {error}") from None
    finally:
        sys.path.remove(here)


def own_encoder(name: str, seed: int = 0) -> nn.Module | None:
    """Build a custom encoder; ``None`` for names without a colon.

    The function is called without arguments and returns a module that maps items to features.
    """
    build = own_object("encoder", name)
    if build is None:
        return None
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        encoder = build if isinstance(build, nn.Module) else build()
    if isinstance(encoder, nn.Module):
        return encoder
    raise ValueError(f"encoder {name} must return a torch.nn.Module, got {type(encoder).__name__}")


def own_code_of(settings: EncoderSettings, names: Collection[str]) -> Config:
    """Import the custom encoder and views of the settings in ``names``.

    Returns arguments of the run, ``None`` for settings without a colon.
    """
    values, given = vars(settings), Config()
    if "encoder" in names:
        given["encoder"] = own_encoder(values["encoder"], settings.seed)
    if "views" in names:
        given["view"] = own_object("views", values["views"])
    return given

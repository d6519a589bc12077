"""Image encoders saved to and loaded from folders in the layout of the Hugging Face Hub.

A folder holds ``model.safetensors``, ``config.json`` and ``README.md``, the model card. Loading it
executes nothing. Tested with safetensors 0.8 and huggingface_hub 2.4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from bayescl.checks import missing

try:
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file
except ImportError as error:
    raise missing("safetensors", "hub", error) from error

_MODULES = {
    "SmallConvEncoder": "bayescl_lab.images.encoders",
    "TorchvisionEncoder": "bayescl_lab.images.encoders",
    "TimmEncoder": "bayescl_lab.integrations.timm",
}
"""Modules of the encoders that may be saved; no others are loaded."""
_FILES = ("model.safetensors", "config.json", "README.md")


def save_encoder(
    folder: str | Path, encoder: nn.Module, arguments: Mapping[str, Any], *, description: str = ""
) -> None:
    """Write an encoder into a folder, for ``huggingface_hub.upload_folder`` to upload.

    Args:
        folder: created if missing; its three files are replaced.
        encoder: a ``SmallConvEncoder``, ``TorchvisionEncoder`` or ``TimmEncoder``.
        arguments: keyword arguments that made the encoder: numbers, strings and booleans.
        description: Markdown on data and training for the model card.

    Raises:
        ValueError: if the encoder is of another class, or the arguments make a different encoder.

    Example:
        ::

            arguments = {"name": "resnet18", "image_size": 32}
            save_encoder("my-encoder", TorchvisionEncoder(**arguments), arguments)
    """
    name = type(encoder).__name__
    tensors = {
        key: value.detach().cpu().contiguous() for key, value in encoder.state_dict().items()
    }
    rebuilt = _made(name, arguments).state_dict()
    shapes = [{key: value.shape for key, value in state.items()} for state in (tensors, rebuilt)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arguments must be those that made the encoder, got {dict(arguments)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in arguments.items() if key != "pretrained"}
    config = {"library_name": "bayescl", "encoder": name, "arguments": kept}
    save_file(tensors, folder / _FILES[0], metadata={"format": "pt"})
    (folder / _FILES[1]).write_text(json.dumps(config, indent=2) + "\n")
    (folder / _FILES[2]).write_text(_card(name, kept, description))


def load_encoder(source: str | Path) -> nn.Module:
    """Load an encoder from a folder or from a repository on the Hub.

    Args:
        source: a folder written by :func:`save_encoder`, or ``"owner/name"`` on the Hub.

    Returns:
        The encoder, in ``eval()`` mode.

    Raises:
        ValueError: if the folder holds no such encoder.
    """
    folder = Path(source)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(str(source), allow_patterns=list(_FILES)))
    try:
        config = json.loads((folder / "config.json").read_text())
        name, arguments = str(config["encoder"]), dict(config["arguments"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} must hold the config.json of an encoder") from error
    encoder = _made(name, arguments)
    try:
        encoder.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{folder} must hold the weights of its encoder") from error
    return encoder.eval()


def _made(name: str, arguments: Mapping[str, Any]) -> nn.Module:
    """An encoder of a known class, with random weights."""
    if name not in _MODULES:
        raise ValueError(f"encoder must be one of {', '.join(_MODULES)}, got {name}")
    known = {key: value for key, value in arguments.items() if key != "pretrained"}
    try:
        encoder: nn.Module = getattr(import_module(_MODULES[name]), name)(**known)
    except TypeError as error:
        raise ValueError(f"arguments must be those of {name}, got {known}") from error
    return encoder


def _card(name: str, arguments: Mapping[str, Any], description: str) -> str:
    """The model card."""
    settings = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return (
        "---\nlibrary_name: bayescl\npipeline_tag: image-feature-extraction\n"
        "tags:\n- contrastive-learning\n- self-supervised-learning\n---\n\n"
        f"# {name}({settings})\n\n{description.strip() or 'No description was given.'}\n\n"
        "```python\nfrom bayescl_lab.integrations.hub import load_encoder\n\n"
        'encoder = load_encoder("owner/name")\n```\n'
    )

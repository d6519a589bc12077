"""Encoders in a folder in the Hub's layout, timm's among them; without network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("safetensors", reason="needs safetensors")
pytest.importorskip("torchvision", reason="needs bayescl[images]")

from cases import each

from bayescl_lab.images.encoders import SmallConvEncoder
from bayescl_lab.integrations.hub import load_encoder, save_encoder

SMALL = {"channels": 1, "width": 4}


def test_the_folder_is_laid_out_as_the_hub_expects(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    save_encoder(folder, SmallConvEncoder(**SMALL), SMALL, description="Trained on *bars*.")
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["README.md", "config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["library_name"], config["arguments"]) == ("bayescl", SMALL)
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: bayescl\n")
    assert "Trained on *bars*." in card
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    assert hub.ModelCard.load(folder / "README.md").data.library_name == "bayescl"


@each(
    ("name", "arguments"),
    [
        ("SmallConvEncoder", SMALL),
        ("TorchvisionEncoder", {"name": "resnet18", "image_size": 32}),
        ("TimmEncoder", {"name": "test_resnet", "channels": 1, "image_size": 32}),
    ],
)
def test_a_loaded_encoder_gives_the_same_features(
    name: str, arguments: dict, tmp_path: Path
) -> None:
    if name == "TimmEncoder":
        pytest.importorskip("timm", reason="needs timm")
        from bayescl_lab.integrations import timm as module
    else:
        from bayescl_lab.images import encoders as module
    encoder = getattr(module, name)(**arguments)
    images = torch.randn(8, arguments.get("channels", 3), 32, 32)
    assert encoder(images).shape == (8, encoder.feature_dim)  # moves batch normalisation
    save_encoder(tmp_path, encoder, {**arguments, "pretrained": False})
    loaded = load_encoder(tmp_path)
    assert not loaded.training
    torch.testing.assert_close(loaded(images), encoder.eval()(images))


def test_a_network_of_timm_trains_in_simclr() -> None:
    pytest.importorskip("timm", reason="needs timm")
    import bayescl
    from bayescl_lab.images.encoders import ProjectionHead
    from bayescl_lab.integrations.timm import TimmEncoder

    encoder = TimmEncoder("test_resnet", image_size=32)
    head = ProjectionHead(encoder.feature_dim, 16, 8)
    views = [head(encoder(torch.randn(4, 3, 32, 32))) for _ in range(2)]
    bayescl.BayesianContrastiveLoss()(*views).backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    with pytest.raises(ValueError, match="network of timm"):
        TimmEncoder("no such network")


def test_what_is_not_an_encoder_or_its_arguments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="arguments"):
        save_encoder(tmp_path, SmallConvEncoder(**SMALL), {"channels": 1, "width": 5})
    with pytest.raises(ValueError, match="encoder must be one of"):
        save_encoder(tmp_path, torch.nn.Linear(2, 2), {})
    with pytest.raises(ValueError, match=r"config\.json"):
        load_encoder(tmp_path)
    for config, message in {
        '{"encoder": "SmallConvEncoder", "arguments": 3}': r"config\.json",
        '{"encoder": "os.system", "arguments": {}}': "encoder must be one of",
        '{"encoder": ["SmallConvEncoder"], "arguments": {}}': "encoder must be one of",
        '{"encoder": "SmallConvEncoder", "arguments": {"depth": 3}}': "those of SmallConvEncoder",
    }.items():
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(ValueError, match=message):
            load_encoder(tmp_path)
    save_encoder(tmp_path, SmallConvEncoder(**SMALL), SMALL)
    weights = tmp_path / "model.safetensors"
    for spoil in (lambda: weights.write_bytes(b"damaged"), weights.unlink):
        spoil()
        with pytest.raises(ValueError, match="weights"):
            load_encoder(tmp_path)

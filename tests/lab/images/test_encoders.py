import pytest
import torch
import torchvision
from torch import nn

from bayescl_lab.images.encoders import ResNetEncoder, SmallConvEncoder
from bayescl_lab.items.networks import feature_dim_of


def test_the_stem_for_small_images_keeps_their_size_and_the_ordinary_one_quarters_it():
    images, sizes = torch.zeros(1, 3, 64, 64), []
    for image_size in (64, 65):
        network = ResNetEncoder("resnet18", image_size=image_size).eval().network
        network.layer1.register_forward_hook(lambda _m, inputs, _o: sizes.append(inputs[0].shape))
        network(images)
    assert [tuple(size[2:]) for size in sizes] == [(64, 64), (16, 16)]


def test_features_are_what_goes_into_the_classifier():
    torch.manual_seed(0)
    encoder = ResNetEncoder("resnet18", image_size=224).eval()
    plain = torchvision.models.resnet18(weights=None).eval()
    plain.load_state_dict(encoder.network.state_dict(), strict=False)
    images, seen = torch.rand(2, 3, 70, 70), []
    plain.fc.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    plain(images)
    torch.testing.assert_close(encoder(images), seen[0])


@pytest.mark.parametrize(
    ("name", "channels", "size"),
    [("resnet18", 1, 32), ("resnet18", 4, 80), ("resnext50_32x4d", 3, 64)],
)
def test_any_resnet_and_channels_give_one_feature_per_image(name, channels, size):
    encoder = ResNetEncoder(name, channels=channels, image_size=size).eval()
    with torch.no_grad():
        features = encoder(torch.rand(2, channels, size, size))
    assert features.shape == (2, encoder.feature_dim)
    assert not torch.equal(*features)


def test_the_feature_length_of_any_module_is_found():
    own = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten())
    before = own[1].running_mean.clone()
    assert feature_dim_of(own, (1, 6, 6)) == 3 * 4 * 4
    assert torch.equal(own[1].running_mean, before)
    assert own.training
    assert feature_dim_of(SmallConvEncoder(width=5), (1, 6, 6)) == 20
    with pytest.raises(ValueError, match=r"\[2, features\], got \[2, 3, 4, 4\]"):
        feature_dim_of(nn.Conv2d(1, 3, 3), (1, 6, 6))

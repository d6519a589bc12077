import pytest
import torch

from bayescl.losses import InfoNCELoss, OracleContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.encoders import SmallConvEncoder
from bayescl_lab.items.batches import ItemBatch
from bayescl_lab.items.networks import ProjectionHead
from bayescl_lab.items.simclr import SimCLR

TRAIN = load_images("digits").train
BATCH = ItemBatch(TRAIN.items[:24], TRAIN.labels[:24])


def simclr(loss: torch.nn.Module, **changes) -> SimCLR:
    torch.manual_seed(0)
    encoder = SmallConvEncoder(width=4)
    settings = {"learning_rate": 0.01, "total_steps": 10, "seed": 3, **changes}
    model = SimCLR(
        encoder=encoder,
        projection_head=ProjectionHead(encoder.feature_dim),
        loss=loss,
        augmentation=AffineNoise(),
        normalization=Normalization(TRAIN),
        **settings,
    )
    model.log = lambda *_, **__: None  # there is no trainer to log to
    return model


def test_views_pass_through_the_network_in_calls_of_their_own():
    model, seen = simclr(InfoNCELoss(positive_share=1.0)), []
    norm = model.encoder.layers[1]
    norm.register_forward_hook(lambda _module, inputs, _output: seen.append(len(inputs[0])))
    value = model.training_step(BATCH, 5)
    assert seen == [24, 24]
    seeds = [derived_seed(3, Purpose.VIEWS, 0, 5, view) for view in (1, 2)]
    views = [model.augmentation(BATCH.items, seed=seed) for seed in seeds]
    embeddings = [model.projection_head(model.encode_views(view)) for view in views]
    torch.testing.assert_close(value, InfoNCELoss()(*embeddings))


@pytest.mark.parametrize("half", [False, True])
def test_the_teacher_is_the_network_on_plain_images_and_leaves_no_trace_in_its_state(half):
    model, alone = (
        simclr(InfoNCELoss(), embeds_items=True),
        simclr(InfoNCELoss(positive_share=1.0)),
    )
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        value = model.training_step(BATCH, 5)
        alone.training_step(BATCH, 5)
    for name, buffer in alone.named_buffers():
        assert torch.equal(buffer, model.get_buffer(name))
    value.backward()
    assert all(weight.grad.abs().sum() > 0 for weight in model.encoder.parameters())
    plain = BATCH.items.float() / 255
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        views = model.draw_views(BATCH.items, (1, 2), 5)
        embedded = [model.projection_head(model.encode_views(view)) for view in (*views, plain)]
        expected = InfoNCELoss()(*embedded[:2], teacher=embedded[2])
    torch.testing.assert_close(value, expected)


def test_a_teacher_of_the_batch_replaces_the_network():
    model = simclr(InfoNCELoss())
    teacher = torch.randn(24, 7, generator=torch.Generator().manual_seed(1))
    value = model.training_step(BATCH._replace(known={"teacher": teacher}), 0)
    embedded = model.embed(BATCH.items, 0, with_plain=False)
    torch.testing.assert_close(value, InfoNCELoss()(*embedded, teacher=teacher))


@pytest.mark.parametrize("kind", [InfoNCELoss, OracleContrastiveLoss])
def test_only_a_loss_that_needs_labels_sees_them(kind):
    seen = []

    class Spy(kind):
        def forward(self, view_1, view_2, **others):
            seen.append(others)
            return super().forward(view_1, view_2, **others)

    simclr(Spy(positive_share=1.0)).training_step(BATCH, 0)
    assert list(seen[0]) == (["groups"] if kind is OracleContrastiveLoss else [])
    assert all(torch.equal(labels, BATCH.labels) for labels in seen[0].values())


def test_autocast_and_channels_last_change_features_by_rounding_alone():
    model = simclr(InfoNCELoss())
    plain = model(BATCH.items)
    model.channels_last = True
    torch.testing.assert_close(model(BATCH.items), plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(BATCH.items)
    assert rounded.dtype == torch.bfloat16
    assert (rounded.float() - plain).norm() < 0.02 * plain.norm()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_encoder_takes_images_of_any_small_size(channels):
    encoder = SmallConvEncoder(channels, width=4)
    for size in (4, 5, 8, 15, 32):
        assert encoder(torch.rand(2, channels, size, size)).shape == (2, encoder.feature_dim)

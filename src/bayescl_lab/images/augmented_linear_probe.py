"""The linear probe in the paper's protocol, trained on augmented images, not cached features."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Tensor
from bayescl.checks import check_count, check_positive
from bayescl.diagnostics import in_eval_mode
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.features import extract_features
from bayescl_lab.images.linear_probe import TopScore, top_score
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore

WEIGHT_DECAY = 1e-6


def augmented_linear_probe(
    model: SimCLR,
    train: ImageStore,
    evaluation: ImageStore,
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    seed: int = 0,
    precision: torch.dtype = torch.float32,
) -> TopScore:
    """Accuracy of a linear layer trained on views of all training images.

    In every epoch, each training image passes once through the frozen encoder in ``eval()`` mode,
    as a view drawn by the model's own augmentation. The layer is trained by Adam with weight decay
    1e-6 and evaluated after the last epoch on plain images. The authors report the best epoch on
    the test images instead, which can only be higher.

    Args:
        model: the encoder and its augmentation; its mode is restored afterwards.
        train: images whose labels the layer learns from, on the model's device.
        evaluation: images to evaluate on.
        epochs: passes over the training images.
        batch_size: images per step; the last batch of an epoch may be smaller.
        learning_rate: of Adam; the authors take 1e-2 for STL10.
        seed: fixes the layer's initial weights, the order of images and their views.
        precision: of the encoder; ``torch.bfloat16`` is several times as fast on a GPU.

    Returns:
        Shares of correct predictions, in [0, 1].
    """
    check_count("epochs", epochs, 1)
    check_count("batch_size", batch_size, 1)
    check_positive("learning_rate", learning_rate)
    device = train.device
    classifier: nn.Linear | None = None
    with (
        in_eval_mode(model),
        torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision != torch.float32),
    ):
        for epoch in range(epochs):
            order_seed = derived_seed(seed, Purpose.ORDER, epoch)
            order = torch.randperm(len(train), generator=torch.Generator().manual_seed(order_seed))
            batches = order.split(batch_size)
            shown = train.in_batches(batches, batch_size)
            for step, (rows, images) in enumerate(zip(batches, shown, strict=True)):
                view_seed = derived_seed(seed, Purpose.VIEWS, epoch, step)
                with torch.no_grad():
                    views = model.augmentation(images, seed=view_seed)
                    features = model.encode_views(views).float()
                if classifier is None:
                    classifier = _fresh_layer(features, train.num_classes, seed)
                    optimizer = torch.optim.Adam(
                        classifier.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY
                    )
                _take_step(classifier, optimizer, features, train.labels[rows.to(device)])
        features = extract_features(model, evaluation)
    assert classifier is not None  # there was an epoch
    with torch.no_grad():
        return top_score(classifier(features), evaluation.labels)


def _fresh_layer(features: Tensor, num_classes: int, seed: int) -> nn.Linear:
    """A linear layer for such features, its weights drawn from the seed."""
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        layer = nn.Linear(features.shape[1], num_classes)
    return layer.to(features.device)


def _take_step(
    classifier: nn.Linear, optimizer: torch.optim.Optimizer, features: Tensor, labels: Tensor
) -> None:
    """One step of the layer, in float32 whatever the encoder computes in."""
    with torch.enable_grad(), torch.autocast(features.device.type, enabled=False):
        optimizer.zero_grad()
        F.cross_entropy(classifier(features), labels).backward()
        optimizer.step()

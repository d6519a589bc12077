"""``bayescl train images``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def command(
    *,
    data: str = "digits",
    loss: str = "bayesian",
    temperature: float | None = None,
    tau_plus: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    concentration: float | None = None,
    num_classes: int | None = None,
    classes: str | None = None,
    max_train_images: int | None = None,
    image_size: int | None = None,
    encoder: str = "small",
    width: int = 32,
    stride: int = 1,
    hidden_dim: int = 256,
    embedding_dim: int = 128,
    augmentation: str = "auto",
    strength: float | None = None,
    view_size: int | None = None,
    joint_views: bool = False,
    epochs: int = 30,
    batch_size: int = 256,
    optimizer: str = "adam",
    lr: float = 1e-3,
    weight_decay: float = 1e-6,
    warmup_epochs: int = 0,
    cache_chunk: int | None = None,
    precision: str = "float32",
    channels_last: bool = False,
    compiled: bool = False,
    alpha_schedule: str = "fixed",
    alpha_every: int = 20,
    alpha_reading: str = "model",
    alpha_labels: int = 20,
    knn_every: int = 0,
    linear_protocol: str = "fast",
    seed: int = 0,
    evaluate_on: str = "test",
    device: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    checkpoint_every: int = 1,
    checkpoint_every_steps: int | None = None,
    tensorboard: bool = False,
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Train an encoder on images with one loss, and judge it by every probe.

    Args:
        data: name of a data set (see "bayescl data list"), or the path of a folder of images or of
            an .npz file with arrays "images" and "labels".
        loss: info_nce, debiased, hard, bayesian or oracle.
        temperature: softmax scale. This and the other hyper-parameters are, unless given, those
            recorded for the data set, or else the loss's defaults.
        tau_plus: prior probability that a candidate is a positive (debiased, hard, bayesian).
        alpha: probability that a positive outscores a negative, 0.5 to 1 (bayesian).
        beta: hardness, 0.5 (none) to 1 (bayesian).
        concentration: exponent of the hardness weights, 0 or more (hard).
        num_classes: sets tau_plus to 1/C and beta to 1 - 1/C where these are not given.
        classes: of the data set's classes only these, with commas between, or a number to draw.
        max_train_images: train on so many images at most.
        image_size: side in pixels that images are brought to; their own unless given.
        encoder: "small", or a network of torchvision such as resnet18, resnet34 or resnet50.
        width: channels of the small encoder's first block.
        stride: of the small encoder's first convolution; 2 is cheaper on larger images.
        hidden_dim: width of the projection head's hidden layer.
        embedding_dim: length of an embedding.
        augmentation: affine noise for small drawings, simclr for photographs, or auto.
        strength: how much views differ from their image; unless given, 0.75 of affine noise and
            1 of the recipe for photographs.
        view_size: side in pixels of the recipe's views; that of the images unless given.
        joint_views: both views in one call of the network.
        epochs: passes over the training images.
        batch_size: images per step, on all devices together; each gives two views.
        optimizer: adam, sgd or lars.
        lr: highest learning rate; it follows a cosine down to 0.
        weight_decay: of the optimizer.
        warmup_epochs: epochs in which the learning rate rises first.
        cache_chunk: images that go through the network together, where a batch is too large for
            memory; all of a batch unless given.
        precision: float32, or bfloat16 by autocast.
        channels_last: images lie in memory pixel by pixel.
        compiled: the network goes through torch.compile.
        alpha_schedule: fixed; ramp, from 0.501 to alpha in steps; measured, with labels of a few
            training images; or label-free, from views of training images (bayesian).
        alpha_every: epochs between two measurements.
        alpha_reading: how a measured AUC becomes alpha: model, or auc as the paper's authors do.
        alpha_labels: labelled images of each class that alpha is measured with.
        knn_every: epochs between k-NN scores while training; 0 for none.
        linear_protocol: of the linear probe: fast on cached features, or the paper's.
        seed: of weights, order of images, and views.
        evaluate_on: "test", or "validation" to choose settings: training then leaves that part out.
        device: auto, cpu or cuda.
        devices: devices of each node, each with a process of its own.
        num_nodes: nodes; start the command on each of them with torchrun.
        checkpoint_every: epochs between checkpoints.
        checkpoint_every_steps: steps between further checkpoints within an epoch.
        tensorboard: write the metrics for TensorBoard too.
        out: the run folder; a new one under runs/ unless given.
        resume: go on with the run in the folder, with the settings it has.
    """
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._images import default_folder, probe_table
    from bayescl.experiments.images.recorded import recorded_hyperparameters
    from bayescl.runs.images.run import train_images
    from bayescl.runs.images.settings import ImageSettings
    from bayescl.runs.loop import tensorboard_logger
    from bayescl.runs.losses import choose_hyperparameters

    given = {
        "temperature": temperature,
        "tau_plus": tau_plus,
        "alpha": alpha,
        "beta": beta,
        "concentration": concentration,
    }
    settings = ImageSettings(
        loss=choose_hyperparameters(
            loss,
            given,
            num_classes=num_classes,
            recorded={} if resume else recorded_hyperparameters(data, loss),
        ),
        data=data,
        evaluate_on=evaluate_on,
        classes=classes,
        max_train_images=max_train_images,
        image_size=image_size,
        encoder=encoder,
        width=width,
        stride=stride,
        hidden_dim=hidden_dim,
        embedding_dim=embedding_dim,
        augmentation=augmentation,
        strength=strength,
        view_size=view_size,
        joint_views=joint_views,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        lr=lr,
        weight_decay=weight_decay,
        warmup_epochs=warmup_epochs,
        cache_chunk=cache_chunk,
        precision=precision,
        channels_last=channels_last,
        compiled=compiled,
        alpha_schedule=alpha_schedule,
        alpha_every=alpha_every,
        alpha_reading=alpha_reading,
        alpha_labels=alpha_labels,
        knn_every=knn_every,
        linear_protocol=linear_protocol,
        seed=seed,
        device=device,
        devices=devices,
        num_nodes=num_nodes,
    )
    folder = Path(out) if out is not None else default_folder(f"{loss}-{data}", datetime.now())
    with EpochBar(epochs) as bar:
        result = train_images(
            settings,
            folder,
            resume=resume,
            checkpoint_every=checkpoint_every,
            checkpoint_every_steps=checkpoint_every_steps,
            progress=bar.epoch_done,
            pulse=lambda *state: bar.step_done(*state, per_step=batch_size),
            loggers=[tensorboard_logger(folder)] if tensorboard else [],
        )
    if not result:  # the first of several processes shows it
        return 0
    screen = console()
    screen.print(probe_table(result["probes"], title=f"{loss} on {data}, {evaluate_on} part"))
    for remark in result.get("remarks", ()):
        screen.print(remark, soft_wrap=True)
    screen.print(f"{result['seconds_per_epoch']:.2f} seconds per epoch; run folder: {folder}")
    return 0

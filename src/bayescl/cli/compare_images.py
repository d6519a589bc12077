"""``bayescl compare images``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def command(
    *,
    data: str = "digits",
    losses: str = "info_nce,debiased,hard,bayesian,oracle",
    seeds: int = 4,
    seed: int = 0,
    temperature: float | None = None,
    tau_plus: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    concentration: float | None = None,
    num_classes: int | None = None,
    hyperparameters: dict[str, dict[str, float]] | None = None,
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
    evaluate_on: str = "test",
    device: str = "auto",
    devices: int = 1,
    num_nodes: int = 1,
    workers: int | None = None,
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Train several losses over several seeds and compare their encoders.

    Everything but the loss is the same in all runs, and runs of one seed start from the same
    weights and see the same views, so that differences are taken seed by seed.

    Args:
        data: name of a data set (see "bayescl data list"), or the path of a folder of images or of
            an .npz file with arrays "images" and "labels".
        losses: names with commas between them.
        seeds: number of seeds.
        seed: the first seed; the others follow it.
        temperature: softmax scale of every loss. Where hyper-parameters are not given, each loss
            has those recorded for it on the data set, or else its defaults.
        tau_plus: prior probability that a candidate is a positive, for the losses that take it.
        alpha: probability that a positive outscores a negative, 0.5 to 1 (bayesian).
        beta: hardness, 0.5 (none) to 1 (bayesian).
        concentration: exponent of the hardness weights, 0 or more (hard).
        num_classes: sets tau_plus to 1/C and beta to 1 - 1/C where these are not given.
        hyperparameters: those of single losses, by loss and name; for configuration files.
        classes: of the data set's classes only these, with commas between, or a number to draw.
        max_train_images: train on so many images at most, as many of each class.
        image_size: side in pixels that images are brought to; their own unless given.
        encoder: "small", or a network of torchvision such as resnet18.
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
        batch_size: images per step; each gives two views.
        optimizer: adam, sgd or lars.
        lr: highest learning rate; it follows a cosine down to 0.
        weight_decay: of the optimizer.
        warmup_epochs: epochs in which the learning rate rises first.
        cache_chunk: images that go through the network together; all of a batch unless given.
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
        evaluate_on: "test", or "validation" to choose settings: training then leaves that part out.
        device: auto, cpu or cuda.
        devices: devices of each node for one run.
        num_nodes: nodes.
        workers: runs at a time, one thread each; as many as there are cores unless given.
        out: the folder; a new one under runs/ unless given.
        resume: go on with the comparison in the folder; finished runs are kept.
    """
    from bayescl._cores import usable_cores
    from bayescl._files import write_atomically
    from bayescl.cli._comparison_tables import print_comparison
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._images import default_folder
    from bayescl.experiments.images.comparison import (
        ImageComparison,
        compare_images,
        settle_losses,
    )
    from bayescl.report.images.figure import draw_comparison
    from bayescl.report.images.markdown import comparison_markdown
    from bayescl.report.titles import data_title
    from bayescl.runs.images.settings import ImageSettings
    from bayescl.runs.losses import takes

    given = {
        "temperature": temperature,
        "tau_plus": tau_plus,
        "alpha": alpha,
        "beta": beta,
        "concentration": concentration,
    }
    names = tuple(name.strip() for name in losses.split(",") if name.strip())
    settled = settle_losses(
        names, data, given=given, num_classes=num_classes, hyperparameters=hyperparameters
    )
    comparison = ImageComparison(
        losses=settled,
        seeds=seeds,
        shared=ImageSettings(
            # A schedule of alpha needs a loss that has one; the others keep theirs fixed.
            loss=next((loss for loss in settled if takes(loss.loss, "alpha")), settled[0]),
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
        ),
    )
    if workers is None:
        # On a GPU runs would only wait for one another.
        on_cpu = comparison.shared.torch_device().type == "cpu"
        workers = min(usable_cores(), len(comparison.runs())) if on_cpu else 1
    folder = Path(out) if out is not None else default_folder(f"compare-{data}", datetime.now())
    with EpochBar(epochs * len(comparison.runs())) as bar:
        result = compare_images(
            comparison,
            folder,
            resume=resume,
            workers=workers,
            progress=lambda run, _, done: bar.update(run, done),
        )
    figure = folder / "comparison.png"
    draw_comparison(result, figure)
    caption = f"{data_title(data)}, {evaluate_on} part, accuracy in percent:"
    write_atomically(folder / "comparison.md", f"{caption}\n\n{comparison_markdown(result)}")
    screen = console()
    print_comparison(screen, result)
    screen.print(
        f"figures: {folder / 'result.json'}\ntable: {folder / 'comparison.md'}\npicture: {figure}",
        soft_wrap=True,
    )
    return 0

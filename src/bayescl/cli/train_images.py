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
    epochs: int = 30,
    batch_size: int = 256,
    lr: float = 1e-3,
    strength: float = 0.75,
    width: int = 32,
    seed: int = 0,
    evaluate_on: str = "test",
    device: str = "auto",
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Train an encoder on images with one loss, and judge it by every probe.

    Args:
        data: "digits", or the path of an .npz file with arrays "images" and "labels".
        loss: info_nce, debiased, hard, bayesian or oracle.
        temperature: softmax scale. This and the other hyper-parameters are, unless given, those
            recorded for the data set, or else the loss's defaults.
        tau_plus: prior probability that a candidate is a positive (debiased, hard, bayesian).
        alpha: probability that a positive outscores a negative, 0.5 to 1 (bayesian).
        beta: hardness, 0.5 (none) to 1 (bayesian).
        concentration: exponent of the hardness weights, 0 or more (hard).
        num_classes: sets tau_plus to 1/C and beta to 1 - 1/C where these are not given.
        epochs: passes over the training images.
        batch_size: images per step; each gives two views.
        lr: learning rate of Adam; it follows a cosine down to 0.
        strength: how much views differ from their image.
        width: channels of the encoder's first block.
        seed: of weights, order of images, and views.
        evaluate_on: "test", or "validation" to choose settings: training then leaves that part out.
        device: auto, cpu or cuda.
        out: the run folder; a new one under runs/ unless given.
        resume: go on with the run in the folder, with the settings it has.
    """
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._images import default_folder, probe_table
    from bayescl.experiments.image_run import train_images
    from bayescl.experiments.image_settings import ImageSettings
    from bayescl.experiments.loss_settings import choose_hyperparameters
    from bayescl.experiments.recorded import recorded_hyperparameters

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
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        strength=strength,
        width=width,
        seed=seed,
        device=device,
    )
    folder = Path(out) if out is not None else default_folder(f"{loss}-{data}", datetime.now())
    with EpochBar(epochs) as bar:
        result = train_images(
            settings,
            folder,
            resume=resume,
            progress=lambda epoch, mean_loss: bar.update(f"loss {mean_loss:.3f}", epoch),
        )
    screen = console()
    screen.print(probe_table(result["probes"], title=f"{loss} on {data}, {evaluate_on} part"))
    screen.print(f"{result['seconds_per_epoch']:.2f} seconds per epoch; run folder: {folder}")
    return 0

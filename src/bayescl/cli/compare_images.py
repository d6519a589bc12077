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
    epochs: int = 30,
    batch_size: int = 256,
    lr: float = 1e-3,
    strength: float = 0.75,
    width: int = 32,
    evaluate_on: str = "test",
    device: str = "auto",
    workers: int | None = None,
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Train several losses over several seeds and compare their encoders.

    Everything but the loss is the same in all runs, and runs of one seed start from the same
    weights and see the same views, so that differences are taken seed by seed.

    Args:
        data: "digits", or the path of an .npz file with arrays "images" and "labels".
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
        epochs: passes over the training images.
        batch_size: images per step; each gives two views.
        lr: learning rate of Adam; it follows a cosine down to 0.
        strength: how much views differ from their image.
        width: channels of the encoder's first block.
        evaluate_on: "test", or "validation" to choose settings: training then leaves that part out.
        device: auto, cpu or cuda.
        workers: runs at a time, one thread each; as many as there are cores unless given.
        out: the folder; a new one under runs/ unless given.
        resume: go on with the comparison in the folder; finished runs are kept.
    """
    from bayescl.cli._comparison_tables import print_comparison
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._images import default_folder
    from bayescl.experiments.comparison_figure import draw_comparison
    from bayescl.experiments.comparison_markdown import comparison_markdown
    from bayescl.experiments.image_comparison import (
        ImageComparison,
        compare_images,
        settle_losses,
    )
    from bayescl.experiments.image_settings import ImageSettings
    from bayescl.experiments.provenance import usable_cores
    from bayescl.experiments.run_folder import write_atomically

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
            loss=settled[0],
            data=data,
            evaluate_on=evaluate_on,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            strength=strength,
            width=width,
            seed=seed,
            device=device,
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
    write_atomically(folder / "comparison.md", comparison_markdown(result))
    screen = console()
    print_comparison(screen, result)
    screen.print(
        f"figures: {folder / 'result.json'}\ntable: {folder / 'comparison.md'}\npicture: {figure}",
        soft_wrap=True,
    )
    return 0

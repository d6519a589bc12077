"""``bayescl reproduce multiclass``."""

from __future__ import annotations

from bayescl.cli._reproduce_images import reproduce


def command(
    *,
    size: str = "smoke",
    datasets: str = "",
    losses: str = "",
    seeds: int | None = None,
    epochs: int | None = None,
    device: str = "auto",
    workers: int | None = None,
    out: str | None = None,
    resume: bool = False,
) -> int:
    """Make the paper's table of all classes: four losses on four data sets.

    Args:
        size: smoke, minutes on a CPU with scikit-learn's digits; or paper, for a GPU.
        datasets: some of the table's data sets, with commas between; all unless given.
        losses: some of the table's losses, with commas between; all unless given.
        seeds: number of seeds; the table's own unless given.
        epochs: of every run; with others than the size's own, no value of the paper is shown.
        device: auto, cpu or cuda.
        workers: runs at a time, one thread each; as many as there are cores unless given.
        out: the folder; a new one under runs/ unless given.
        resume: go on with the table in the folder; finished runs are kept.
    """
    return reproduce(
        "multiclass",
        size=size,
        datasets=datasets,
        losses=losses,
        seeds=seeds,
        epochs=epochs,
        device=device,
        workers=workers,
        out=out,
        resume=resume,
    )

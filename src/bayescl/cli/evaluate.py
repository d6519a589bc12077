"""``bayescl evaluate``."""

from __future__ import annotations

from pathlib import Path


def command(run: str) -> int:
    """Judge the last checkpoint of a finished or running run by every probe.

    The figures are also written into the run's folder, as evaluation.json.

    Args:
        run: the run folder.
    """
    from bayescl.cli._console import console
    from bayescl.cli._images import probe_table
    from bayescl.experiments.image_run import evaluate_images

    evaluation = evaluate_images(Path(run))
    title = (
        f"{run} after {evaluation['epochs']} of {evaluation['of_epochs']} epochs, "
        f"{evaluation['evaluated_on']} part"
    )
    console().print(probe_table(evaluation["probes"], title=title))
    return 0

"""``bayescl evaluate``."""

from __future__ import annotations

from pathlib import Path


def command(run: str) -> int:
    """Judge a finished or running run anew: images by every probe, recommenders by a full ranking.

    It is about the last checkpoint; of a recommender whose epoch is chosen, about the best. The
    figures are also written into the run's folder, as evaluation.json.

    Args:
        run: the run folder.
    """
    from bayescl.runs.folder import RunFolder

    path = Path(run)
    if RunFolder.find(path).kind == "train ranking":
        return _evaluate_ranking(path)
    return _evaluate_images(path)


def _evaluate_images(path: Path) -> int:
    """Print the probes of a run on images."""
    from bayescl.cli._console import console
    from bayescl.cli._images import probe_table
    from bayescl.runs.images.run import evaluate_images

    evaluation = evaluate_images(path)
    title = (
        f"{path} after {evaluation['epochs']} of {evaluation['of_epochs']} epochs, "
        f"{evaluation['evaluated_on']} part"
    )
    console().print(probe_table(evaluation["probes"], title=title))
    return 0


def _evaluate_ranking(path: Path) -> int:
    """Print the figures of a recommender."""
    from bayescl.cli._console import console
    from bayescl.cli._ranking import metrics_table
    from bayescl.runs.ranking.evaluation import evaluate_run

    evaluation = evaluate_run(path)
    epochs = evaluation["epochs"]
    after = "" if epochs is None else f" after {epochs} of {evaluation['of_epochs']} epochs"
    title = f"{path}{after}, {evaluation['evaluated_on']} part"
    console().print(metrics_table(evaluation["metrics"], title=title))
    return 0

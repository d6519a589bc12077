"""``bayescl evaluate``."""

from __future__ import annotations

from pathlib import Path


def command(run: str, *, data: str | None = None, encoder: str | None = None) -> int:
    """Evaluate a run, finished or not: images by every probe, recommenders by full ranking.

    The last checkpoint is evaluated, or the best one if a recommender's epoch was chosen on
    validation. The figures are also written to evaluation.json in the run's folder. Data that have
    changed since training are an error.

    Args:
        run: the run folder.
        data: other data to evaluate on; interactions that the run was trained on are left out.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """
    from bayescl_lab.cli._console import console
    from bayescl_lab.cli._tables import metrics_table, print_baselines, probe_table
    from bayescl_lab.runs.folder import RunFolder
    from bayescl_lab.runs.images.encoder import own_encoder
    from bayescl_lab.runs.images.run import evaluate_images
    from bayescl_lab.runs.ranking.evaluation import evaluate_run

    path = Path(run)
    is_ranking = RunFolder.find(path).kind == "train ranking"
    own = None if encoder is None else own_encoder(encoder)
    found = (
        evaluate_run(path, data=data)
        if is_ranking
        else evaluate_images(path, data=data, encoder=own)
    )
    epochs = found["epochs"]
    after = "" if epochs is None else f" after {epochs} of {found['of_epochs']} epochs"
    title = f"{path}{after}, {found['evaluated_on']}{'' if data else ' part'}"
    if is_ranking:
        console().print(metrics_table(found["metrics"], title=title))
        print_baselines(console(), found)
    else:
        console().print(probe_table(found["probes"], title=title))
    return 0

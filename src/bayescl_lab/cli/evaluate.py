"""``bayescl evaluate``."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab.cli._console import say, show
from bayescl_lab.cli._folders import named_encoder


def command(run: str, *, data: str | None = None, encoder: str | None = None) -> int:
    """Evaluate a run: images by every probe, recommenders by full ranking.

    The last checkpoint of a run, finished or not, is evaluated, or the best one if a recommender's
    epoch was chosen on validation. The figures are also written to evaluation.json in the run's
    folder. Data that have changed since training are an error.

    Args:
        run: the run folder.
        data: other data to evaluate on; interactions that the run was trained on are left out.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """
    from bayescl_lab.report.images import probe_table
    from bayescl_lab.report.ranking import baseline_sentences, metrics_table
    from bayescl_lab.runs.folder import RunFolder

    path = Path(run)
    if RunFolder.find(path).kind == "train ranking":
        from bayescl_lab.runs.ranking.baselines import evaluate_run

        result = evaluate_run(path, data=data)
    else:
        from bayescl_lab.runs.images.run import evaluate_images

        result = evaluate_images(path, data=data, encoder=named_encoder(encoder))
    epochs = result["epochs"]
    after = "" if epochs is None else f" after {epochs} of {result['of_epochs']} epochs"
    title = f"{path}{after}, {result['evaluated_on']}{'' if data else ' part'}"
    if "probes" in result:
        show(title, probe_table(result["probes"]))
    else:
        show(title, metrics_table(result["metrics"]))
        say(*baseline_sentences(result))
    return 0

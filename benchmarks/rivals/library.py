"""Everything that the comparisons take from the library's experiments, in one place."""

from __future__ import annotations

from bayescl.experiments.comparison_summary import percent
from bayescl.experiments.image_model import build_model
from bayescl.experiments.image_settings import ImageSettings
from bayescl.experiments.loss_settings import LOSSES, TITLES, LossSettings
from bayescl.experiments.parallel_runs import Progress, train_runs
from bayescl.experiments.provenance import provenance, usable_cores
from bayescl.experiments.run_folder import RunFolder, as_json, read_json, write_atomically
from bayescl.experiments.spread import mean_and_spread
from bayescl.experiments.training_loop import fit_in_folder
from bayescl.experiments.tuning_plans import PLANS

from bayescl._checks import check_choice, check_count, check_non_negative, check_positive
from bayescl._randomness import Purpose, derived_seed, seeded
from bayescl.experiments.grids import Grid, check_same_budget, settings_of
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import load_images
from bayescl.vision.few_label_probe import few_label_probe
from bayescl.vision.probes import probe_title, run_probes
from bayescl.vision.simclr import SimCLR
from bayescl.vision.splits import stratified_split

__all__ = [
    "LOSSES",
    "PLANS",
    "TITLES",
    "EpochOrder",
    "Grid",
    "ImageSettings",
    "LossSettings",
    "Progress",
    "Purpose",
    "RunFolder",
    "SimCLR",
    "StoreBatches",
    "as_json",
    "build_model",
    "check_choice",
    "check_count",
    "check_non_negative",
    "check_positive",
    "check_same_budget",
    "derived_seed",
    "few_label_probe",
    "fit_in_folder",
    "load_images",
    "mean_and_spread",
    "percent",
    "probe_title",
    "provenance",
    "read_json",
    "run_probes",
    "seeded",
    "settings_of",
    "stratified_split",
    "train_runs",
    "usable_cores",
    "write_atomically",
]

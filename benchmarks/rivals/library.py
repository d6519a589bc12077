"""Everything that the comparisons take from the library's experiments, in one place."""

from __future__ import annotations

from bayescl._checks import check_choice, check_count, check_non_negative, check_positive
from bayescl._cores import usable_cores
from bayescl._files import write_atomically
from bayescl._randomness import Purpose, derived_seed, seeded
from bayescl.experiments.grids import Grid, check_same_budget, settings_of
from bayescl.experiments.images.plans import PLANS
from bayescl.report.tables import Table, counted, mean_text
from bayescl.report.titles import data_title, loss_title, measure_title
from bayescl.runs.folder import RunFolder, as_json, read_json
from bayescl.runs.images.model import build_model
from bayescl.runs.images.settings import ImageSettings
from bayescl.runs.loop import fit_in_folder
from bayescl.runs.losses import LossSettings, image_losses
from bayescl.runs.parallel import Progress, train_runs
from bayescl.runs.provenance import provenance
from bayescl.runs.statistics import mean_and_spread
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import load_images
from bayescl.vision.few_label_probe import few_label_probe
from bayescl.vision.probes import run_probes
from bayescl.vision.simclr import SimCLR
from bayescl.vision.splits import stratified_split

LOSSES = image_losses()
"""Names of the library's losses, in the order of tables."""

__all__ = [
    "LOSSES",
    "PLANS",
    "EpochOrder",
    "Grid",
    "ImageSettings",
    "LossSettings",
    "Progress",
    "Purpose",
    "RunFolder",
    "SimCLR",
    "StoreBatches",
    "Table",
    "as_json",
    "build_model",
    "check_choice",
    "check_count",
    "check_non_negative",
    "check_positive",
    "check_same_budget",
    "counted",
    "data_title",
    "derived_seed",
    "few_label_probe",
    "fit_in_folder",
    "load_images",
    "loss_title",
    "mean_and_spread",
    "mean_text",
    "measure_title",
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

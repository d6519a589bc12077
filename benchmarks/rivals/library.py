"""Everything that the comparisons take from the library's experiments, in one place."""

from __future__ import annotations

from bayescl.checks import check_choice, check_count, check_non_negative, check_positive
from bayescl_lab._cores import usable_cores
from bayescl_lab._files import write_atomically
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.compare.images import PLANS
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.compare.tuning import Grid, check_same_budget, settings_of
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.few_label_probe import few_label_probe
from bayescl_lab.images.probes import run_probes
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.subsets import stratified_split
from bayescl_lab.report.tables import Table, counted, mean_text
from bayescl_lab.report.titles import data_title, loss_title, measure_title
from bayescl_lab.runs.folder import RunFolder, as_json, read_json
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.losses import LossSettings, image_losses
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.provenance import provenance

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

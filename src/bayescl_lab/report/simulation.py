"""The paper's numerical experiments as a section of an HTML page."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab.report.section import Section
from bayescl_lab.runs.folder import read_json

SETTINGS = "simulation.json"
"""File in the folder that holds the settings and the seed."""


def simulation_section(folder: Path) -> Section | None:
    """The experiments whose files are in a folder; None if there are none."""
    if not (folder / SETTINGS).is_file():
        return None
    from bayescl_lab.paper.simulation.experiments import EXPERIMENTS, read_table

    section = Section("The paper's numerical experiments", settings=read_json(folder / SETTINGS))
    for experiment in EXPERIMENTS:
        data, picture = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "png"))
        if not data.is_file():
            continue
        said = experiment.finding(read_table(data))
        section.findings += [f"**{experiment.name}**: {said}"] if said else []
        if picture.is_file():
            caption = f"{experiment.name}: {experiment.summary}"
            section.pictures.append((caption, picture.read_bytes()))
    return section

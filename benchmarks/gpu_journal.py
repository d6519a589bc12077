"""What ``gpu.py`` has measured so far, in one file, and the page that shows it.

The file is replaced as a whole after every item, so a break costs at most one value. An item that
is being measured stands in it as a failure, which it is if its process dies. The next call measures
again what failed or had no time.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import torch

from bayescl_lab._files import write_atomically
from bayescl_lab.runs.provenance import command_line, git_commit, hardware, versions

NO_TIME = {"left_out": "no time"}
OUT_OF_MEMORY = {"left_out": "out of memory"}
BEGUN = {"error": "its process ended"}
DEVICE_LOST = 3
"""Exit code of a process in which no further kernel can run."""


class Journal:
    """Values by section and item, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read()

    @classmethod
    def begin(cls, folder: Path, origin: dict[str, Any], *, anew: bool = False) -> Journal:
        """Go on with the newest file of this origin (code, device and size), or start one."""
        files = sorted(folder.glob("????-??-??-gpu.json"))
        kept: dict[str, dict[str, Any]] = {}
        path = folder / f"{date.today().isoformat()}-gpu.json"
        if not anew and files and (earlier := cls(files[-1])).origin == origin:
            path = earlier.path
            for section, items in earlier.sections.items():
                kept[section] = {
                    item: value
                    for item, value in items.items()
                    if is_measured(value) or value == OUT_OF_MEMORY
                }
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"origin": origin, "sections": kept}))
        return cls(path)

    def read(self) -> None:
        """Read the file again, which another process may have continued."""
        body = json.loads(self.path.read_text())
        self.origin: dict[str, Any] = body["origin"]
        self.sections: dict[str, dict[str, Any]] = body["sections"]

    def record(self, section: str, item: str, value: Any) -> None:
        """Keep an item's value."""
        self.sections.setdefault(section, {})[item] = value
        body = {"origin": self.origin, "sections": self.sections}
        write_atomically(self.path, json.dumps(body, indent=1) + "\n")


def is_measured(value: Any) -> bool:
    """Whether there is a value, rather than a reason why there is none."""
    return not isinstance(value, dict) or not {"error", "left_out"} & value.keys()


@dataclass
class Run:
    """What a section may use: its seconds, and a place for its values."""

    journal: Journal
    section: str
    seconds: float
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.quick = bool(self.journal.origin["quick"])
        self.device = str(self.journal.origin["device"])

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.monotonic() - self.started)

    @property
    def items(self) -> dict[str, Any]:
        """This section's values so far."""
        return self.journal.sections.get(self.section, {})

    def measure(self, item: str, function: Callable[[], Any], *, needs: float = 0.0) -> Any:
        """The value of an item: known, or measured now if ``needs`` seconds are left; or None."""
        if item not in self.items:
            value: Any = NO_TIME
            if self.left >= needs:
                self.journal.record(self.section, item, BEGUN)
                value = self._measured(function)
                if self.device == "cuda":
                    self._settle(item, value)
            self.journal.record(self.section, item, value)
        value = self.items[item]
        return value if is_measured(value) else None

    def _measured(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except torch.OutOfMemoryError:
            return OUT_OF_MEMORY
        except Exception as error:
            return failure(error)

    def _settle(self, item: str, value: Any) -> None:
        """Wait for the device; if it fails, end this process, as no kernel runs in it any more."""
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:
            self.journal.record(self.section, item, failure(error) if is_measured(value) else value)
            raise SystemExit(DEVICE_LOST) from error


def failure(error: Exception) -> dict[str, str]:
    """What a report says of an error."""
    words = f"{type(error).__name__}: {error}"[:1000]
    return {"error": words, "traceback": traceback.format_exc()[-4000:]}


def times(call: Callable[[], object], seconds: float = 1.0) -> dict[str, Any]:
    """Median time of a call and its spread, from repeats of so many seconds, device included."""
    from torch.utils import benchmark  # looks for a CUDA compiler, and says so if there is none

    timer = benchmark.Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    measured = timer.blocked_autorange(min_run_time=seconds)
    repeats = len(measured.times) * measured.number_per_run
    spread = 1e3 * measured.iqr
    return {"median_ms": 1e3 * measured.median, "quartiles_apart_ms": spread, "repeats": repeats}


def origin(device: str, *, quick: bool) -> dict[str, Any]:
    """What values must have in common to stand in one report: code, device and size."""
    properties = str(torch.cuda.get_device_properties(0)) if device == "cuda" else None
    return {
        "commit": git_commit(),
        "device": device,
        "quick": quick,
        "hardware": hardware(),
        "versions": versions() | {"cuda": torch.version.cuda},
        "properties": properties,
    }


def write_page(journal: Journal, seconds: float) -> Path:
    """Write a page of what there is so far beside the journal, and return its path."""
    lines = ["# GPU benchmark", "", f"`{command_line()}`, {seconds:.0f} s in the last call", ""]
    lines += [json.dumps(journal.origin), ""]
    if journal.origin["quick"]:
        lines += ["A rehearsal at small sizes: the figures measure nothing.", ""]
    table = {"tbl_rows": -1, "tbl_cols": -1, "tbl_width_chars": 10_000, "fmt_str_lengths": 200}
    plain = {"tbl_hide_column_data_types": True, "tbl_hide_dataframe_shape": True}
    for name, items in journal.sections.items():
        rows = [{"item": item, **items[item]} for item in items if is_measured(items[item])]
        with pl.Config(tbl_formatting="MARKDOWN", **table, **plain):
            shown = str(pl.json_normalize(rows, infer_schema_length=None)) if rows else ""
        lines += [f"## {name}", "", shown, ""]
        for item, value in items.items():
            if not is_measured(value):
                why = value.get("left_out") or f"failed, {value['error']}"
                lines.append(f"- {name}, {item}: {' '.join(str(why).split())[:500]}")
        lines.append("")
    path = journal.path.with_suffix(".md")
    path.write_text("\n".join(lines))
    return path

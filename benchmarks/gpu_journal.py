"""What ``gpu.py`` has measured so far, in one file, so that a break costs at most one value.

The file is replaced as a whole after every item. An item that is being measured stands in it as a
failure, which it is if its process dies. The next call measures again what failed or had no time.
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

import torch

NO_TIME = {"left_out": "no time"}
OUT_OF_MEMORY = {"left_out": "out of memory"}
BEGUN = {"error": "its process ended"}


class DeviceLostError(RuntimeError):
    """No further kernel can run in this process."""


class Journal:
    """Values by section and item, and the sections that are done, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read()

    @classmethod
    def begin(cls, folder: Path, name: str, origin: dict[str, Any], *, anew: bool) -> Journal:
        """Go on with the newest file of this origin (code, device and size), or start one."""
        files = sorted(folder.glob(f"????-??-??-{name}.json"))
        if not anew and files and (journal := cls(files[-1])).origin == origin:
            for section, items in journal.sections.items():
                kept = {key: items[key] for key in items if is_measured(items[key])}
                kept |= {key: items[key] for key in items if items[key] == OUT_OF_MEMORY}
                if len(kept) < len(items):
                    journal.done = [name for name in journal.done if name != section]
                journal.sections[section] = kept
        else:
            folder.mkdir(parents=True, exist_ok=True)
            journal = cls.__new__(cls)
            journal.path = folder / f"{date.today().isoformat()}-{name}.json"
            journal.origin, journal.sections, journal.done = origin, {}, []
        journal._write()
        return journal

    def read(self) -> None:
        """Read the file again, which another process may have continued."""
        body = json.loads(self.path.read_text())
        self.origin: dict[str, Any] = body["origin"]
        self.sections: dict[str, dict[str, Any]] = body["sections"]
        self.done: list[str] = body["done"]

    def record(self, section: str, item: str, value: Any) -> None:
        """Keep an item's value."""
        self.sections.setdefault(section, {})[item] = value
        self._write()

    def finish(self, section: str) -> None:
        """Note that a section has no more items."""
        self.done.append(section)
        self._write()

    def _write(self) -> None:
        body = {"origin": self.origin, "sections": self.sections, "done": self.done}
        aside = self.path.with_name(self.path.name + ".part")
        aside.write_text(json.dumps(body, indent=1) + "\n")
        aside.replace(self.path)


def is_measured(value: Any) -> bool:
    """Whether there is a value, rather than a reason why there is none."""
    return not isinstance(value, dict) or not {"error", "left_out"} & value.keys()


@dataclass
class Run:
    """What a section may use: its options, its seconds, and a place for its values."""

    journal: Journal
    section: str
    seconds: float
    quick: bool
    device: str = "cuda"
    data: str | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.monotonic() - self.started)

    @property
    def items(self) -> dict[str, Any]:
        """This section's values so far."""
        return self.journal.sections.get(self.section, {})

    def measure(self, item: str, function: Callable[[], Any], *, needs: float = 0.0) -> Any:
        """The value of an item: known, or measured now if ``needs`` seconds are left; or None."""
        if item in self.items:
            return self.items[item] if is_measured(self.items[item]) else None
        value: Any = NO_TIME
        if self.left >= needs:
            self.journal.record(self.section, item, BEGUN)
            try:
                value = function()
            except torch.OutOfMemoryError:
                value = OUT_OF_MEMORY
            except Exception as error:
                value = failure(error)
            if self.device == "cuda":
                try:
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
                except Exception as error:
                    lost = failure(error) if is_measured(value) else value
                    self.journal.record(self.section, item, lost)
                    raise DeviceLostError from error
        self.journal.record(self.section, item, value)
        return value if is_measured(value) else None


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

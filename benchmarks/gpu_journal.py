"""What ``gpu.py`` has measured so far: a file of one JSON line per item, so that a break costs one.

A line says that a call of the benchmark began, that an item began, what its value is, or that a
section has no more items. Items
that failed or had no time are measured again by the next call, all others are kept.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch

NO_TIME = {"left_out": "no time"}
OUT_OF_MEMORY = {"left_out": "out of memory"}


class DeviceLostError(RuntimeError):
    """No further kernel can run in this process."""


class Journal:
    """Values by section and item, in memory and in a file.

    Args:
        path: the file, which holds at least one line.

    Attributes:
        sections: values by section and item.
        done: sections without unfinished items.
        running: the item that began last, if its value is not known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read()

    @classmethod
    def begin(cls, folder: Path, name: str, origin: dict[str, Any], *, anew: bool) -> Journal:
        """Begin a call of the benchmark: go on with the newest file of this origin, or start one.

        Args:
            folder: where the files are.
            name: of the files, behind the date.
            origin: the code and the device that values belong to.
            anew: whether to overwrite today's file.
        """
        files = sorted(folder.glob(f"????-??-??-{name}.jsonl"))
        if not anew and files and (found := cls(files[-1])).origin == origin:
            found._append({"call": True})
            found.read()
            return found
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{date.today().isoformat()}-{name}.jsonl"
        path.write_text(json.dumps({"origin": origin}) + "\n")
        return cls(path)

    def read(self) -> None:
        """Read the file again, which another process may have continued."""
        self.origin: dict[str, Any] = {}
        self.sections: dict[str, dict[str, Any]] = {}
        self.done: set[str] = set()
        self.running: tuple[str, str] | None = None
        for line in self._lines():
            if "call" in line:
                self._forget_unfinished()
            elif "origin" in line:
                self.origin = line["origin"]
            elif "done" in line:
                self.done.add(line["done"])
            elif "value" in line:
                self.sections.setdefault(line["section"], {})[line["item"]] = line["value"]
                self.running = None
            else:
                self.running = (line["section"], line["item"])

    def start(self, section: str, item: str) -> None:
        """Note that an item is being measured."""
        self.running = (section, item)
        self._append({"section": section, "item": item})

    def record(self, section: str, item: str, value: Any) -> None:
        """Keep an item's value."""
        self.running = None
        self.sections.setdefault(section, {})[item] = value
        self._append({"section": section, "item": item, "value": value})

    def finish(self, section: str) -> None:
        """Note that a section has no more items."""
        self.done.add(section)
        self._append({"done": section})

    def _forget_unfinished(self) -> None:
        self.running = None
        for name, items in self.sections.items():
            if not all(is_finished(value) for value in items.values()):
                self.done.discard(name)
            self.sections[name] = {key: items[key] for key in items if is_finished(items[key])}

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:  # cut off by a break
                continue

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a+") as file:
            file.seek(max(0, file.tell() - 1))
            cut_off = file.read() != "\n"
            file.write("\n" * cut_off + json.dumps(line) + "\n")


def is_finished(value: Any) -> bool:
    """Whether an item's value is one to keep."""
    return is_measured(value) or value == OUT_OF_MEMORY


@dataclass
class Run:
    """What a section may use: its options, its seconds, and a place for its values.

    Attributes:
        journal: where values are kept.
        section: name of the section.
        seconds: how long it may take.
        quick: whether to rehearse at small sizes.
        device: "cuda" or "cpu".
        data: a folder of images.
    """

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
        """The value of an item: known, or measured now; None if there is none.

        Args:
            item: its name.
            function: measures it; returns plain values.
            needs: seconds it will take; if there are fewer, it is left out.
        """
        if item in self.items:
            return self.items[item] if is_measured(self.items[item]) else None
        if self.left < needs:
            self.journal.record(self.section, item, NO_TIME)
            return None
        value = self.attempt(item, function)
        if value is not None:
            self.journal.record(self.section, item, value)
        return value

    def attempt(self, item: str, function: Callable[[], Any]) -> Any:
        """The result of a function, which is not kept; None if it failed, which is."""
        if item in self.items:
            return None
        self.journal.start(self.section, item)
        value = None
        try:
            value = function()
        except torch.OutOfMemoryError:
            self.journal.record(self.section, item, OUT_OF_MEMORY)
        except Exception as error:
            self.journal.record(self.section, item, failure(error))
        if self.device == "cuda":
            self._check_device(item)
        return value

    def _check_device(self, item: str) -> None:
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:
            if is_measured(self.items.get(item)):
                self.journal.record(self.section, item, failure(error))
            raise DeviceLostError(str(error)) from error


def is_measured(value: Any) -> bool:
    """Whether there is a value, rather than a reason why there is none."""
    return not isinstance(value, dict) or not {"error", "left_out"} & value.keys()


def failure(error: Exception) -> dict[str, str]:
    """What a report says of an error."""
    return {
        "error": f"{type(error).__name__}: {error}"[:1000],
        "traceback": traceback.format_exc()[-4000:],
    }

"""``bayescl reproduce`` rehearsed: generated images in the published form and number, one epoch.

    python benchmarks/rehearse_reproduce.py --folder FOLDER

Writes the archives of CIFAR-10, STL-10, CIFAR-100 and Tiny ImageNet with random images into
FOLDER, where 15 GB must be free, serves them on this machine, and gives each step to a process of
its own: download and verify; decode to pixels; ``reproduce multiclass --size rehearsal`` with one
loss; the same killed (SIGKILL) and resumed; a step of ResNet-50 at batch 256, with its gradients
cached by 32 images; the probes on random features of ResNet-50's width and the largest data set's
size. Writes each step's seconds, those of the processor, the peak of the memory that
is no file's and the peak with mapped pixels to a dated JSON file in ``benchmarks/results``. All
start Python and torch anew. One thread trains. Checksums are those of the generated archives.

``--share`` makes every data set smaller, to try the script; nothing is then written. ``--keep``
keeps the archives, which the next call then uses.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import torch
from harness import write_result
from rehearsal.archives import md5, put_in_place, write_archive
from rich.console import Console

from bayescl_lab.cli import main as bayescl
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.encoders import TorchvisionEncoder
from bayescl_lab.images.feature_probes import ProbeData, few_label_probe, knn_probe
from bayescl_lab.paper.images.sizes import DATASETS, NUM_CLASSES

SHAPES = {
    "cifar10": (50_000, 10_000),
    "stl10": (5_000, 8_000),
    "cifar100": (50_000, 10_000),
    "tiny-imagenet": (100_000, 10_000),
}
"""Labelled training images and test images: what probes see."""
FEATURES = 2048
DRAWS, OF_DRAWS = 10, 100
"""Draws of a few-label probe that are timed, and those of a run."""
MIB, GIB = 2**20, 2**30


class Step(NamedTuple):
    """What a process took: figures, and the last lines of its output.

    The figures are seconds by the clock and of the processor, and in MiB the peak of memory that is
    no file's and the peak with mapped pixels.
    """

    figures: dict[str, float]
    output: list[str]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and give its address."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def carry_out(setup: Path, words: list[str], *, until: Callable[[], bool] | None = None) -> Step:
    """Run one step in a process of its own, and watch its memory.

    Args:
        setup: a file for :func:`inside`: archives and the folder of data.
        words: a command line of bayescl, or ``pixels`` or ``probes`` and the name of a data set.
        until: kills the process as soon as it is true.

    Raises:
        RuntimeError: if the process fails, or ends before it is killed.
    """
    line = [sys.executable, __file__, "--inside", str(setup), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = setup.with_suffix(".log")
    start, own, killed = time.perf_counter(), 0.0, False
    with log.open("w") as output:
        process = subprocess.Popen(line, env=environment, stdout=output, stderr=subprocess.STDOUT)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            own = max(own, _own_memory(process.pid))
            if until is not None and not killed and until():
                process.send_signal(signal.SIGKILL)
                killed = True
            time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)  # so that it is not waited for again
    said = log.read_text().splitlines()
    if process.returncode != (-signal.SIGKILL if until else 0):
        raise RuntimeError(f"{shlex.join(words)} ended with {process.returncode}: {said[-5:]}")
    figures = {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "own_mib": round(own / MIB),
        "peak_mib": round(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MIB),
    }
    return Step(figures, said[-12:])


def _own_memory(pid: int) -> float:
    """Bytes of a process's memory that are no file's; 0 where the system does not tell."""
    try:
        _, _, rest = Path(f"/proc/{pid}/status").read_text().partition("RssAnon:")
    except OSError:
        return 0.0
    return 1024.0 * int(rest.split()[0]) if rest else 0.0


def inside(setup: Path, words: list[str]) -> int:
    """One step, in a process that takes the generated archives for the published ones."""
    given = json.loads(setup.read_text())
    os.environ["BAYESCL_DATA"] = given["data"]
    torch.set_num_threads(1)
    put_in_place(given["archives"])
    if words[0] == "pixels":
        load_images(words[1])
        return 0
    if words[0] == "probes":
        return probes(words[1], float(words[2]))
    return bayescl(words)


def probes(name: str, share: float) -> int:
    """Fit the probes of a run to random features, and print the seconds of each."""
    classes, generator = NUM_CLASSES[name], torch.Generator().manual_seed(0)
    parts = []
    for published in SHAPES[name]:
        count = max(10 * classes, round(share * published))
        parts += [torch.rand(count, FEATURES, generator=generator), torch.arange(count) % classes]
    data = ProbeData(*parts, classes)
    seconds = {}
    for title, probe, repeated in (
        ("knn", knn_probe, 1),
        (
            "few_label_1",
            partial(few_label_probe, labels_per_class=1, draws=DRAWS),
            OF_DRAWS / DRAWS,
        ),
        (
            "few_label_5",
            partial(few_label_probe, labels_per_class=5, draws=DRAWS),
            OF_DRAWS / DRAWS,
        ),
    ):
        start = time.perf_counter()
        probe(data)
        seconds[title] = round(repeated * (time.perf_counter() - start), 1)
    sys.stdout.write(json.dumps(seconds) + "\n")
    return 0


def rehearse(work: Path, names: list[str], share: float, images: int) -> dict[str, Any]:
    """Every step, and its figures.

    Args:
        work: a folder; archives of an earlier call in it are used again.
        names: the data sets.
        share: of the published number of images.
        images: largest number of training images of a table.
    """
    console = Console(stderr=True)
    archives, data, setup = work / "archives", work / "data", work / "setup.json"
    archives.mkdir(parents=True, exist_ok=True)
    sets: dict[str, dict[str, Any]] = {name: {"name": name} for name in names}
    with served(archives) as address:
        files = {}
        for name, figures in sets.items():
            path = write_archive(name, archives, share)
            file = {"url": f"{address}/{path.name}", "size": path.stat().st_size}
            files[name] = {**file, "checksum": md5(path)}
            setup.write_text(json.dumps({"data": str(data), "archives": files}))
            figures["archive_mb"] = megabytes(path)
            figures["fetch"] = carry_out(setup, ["data", "fetch", name]).figures
    for name, figures in sets.items():
        figures["pixels"] = carry_out(setup, ["pixels", name]).figures
        figures["disk_mb"] = megabytes(data / name)
        place = work / f"table-{name}"
        step = carry_out(setup, [*_table(name, "bayesian", images), "--out", str(place)])
        (run,) = (place / "runs").iterdir()
        result = json.loads((run / "result.json").read_text())
        figures["table"] = {
            **step.figures,
            "images": result["images"],
            "seconds_per_epoch": round(result["seconds_per_epoch"], 1),
        }
        console.print(figures)
    largest = names[-1]
    step = carry_out(setup, ["probes", largest, str(share)])
    return {
        "images_of_a_table": f"at most {images:,}",
        "data_sets": list(sets.values()),
        "killed_and_resumed": killed_and_resumed(setup, names[0]),
        "resnet50": real_step(setup, names[0]),
        "probes_are_of": f"{FEATURES} features, few labels {OF_DRAWS} times from {DRAWS} timed",
        "probes": {"data": largest, **step.figures, "seconds_of": json.loads(step.output[-1])},
    }


def _table(data: str, loss: str, images: int) -> list[str]:
    """The words that make a part of the table of all classes."""
    chosen = ["--datasets", data, "--losses", loss, "--max-train-images", str(images)]
    size = ["--size", "rehearsal", "--workers", "1", "--device", "cpu"]
    return ["reproduce", "multiclass", *size, *chosen]


def megabytes(place: Path) -> float:
    """Size of a file, or of all files in a folder."""
    files = [file for file in place.rglob("*") if file.is_file()] if place.is_dir() else [place]
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


def killed_and_resumed(setup: Path, name: str) -> dict[str, Any]:
    """Kill a table after its first checkpoint; resumed, it must equal the unbroken one."""
    unbroken, killed = (setup.parent / f"{kind}-table" for kind in ("unbroken", "killed"))
    words = [*_table(name, "info_nce", 2000), "--epochs", "3"]
    carry_out(setup, [*words, "--out", str(unbroken)])

    def begun() -> bool:
        return any((killed / "runs").glob("*/checkpoints/last.ckpt"))

    before = carry_out(setup, [*words, "--out", str(killed)], until=begun)
    after = carry_out(setup, ["reproduce", "multiclass", "--resume", "--out", str(killed)])
    cells = [json.loads((at / "result.json").read_text())["cells"] for at in (unbroken, killed)]
    return {
        "data": name,
        "epochs": 3,
        "killed_after_seconds": before.figures["seconds"],
        "resumed_seconds": after.figures["seconds"],
        "same_figures": cells[0] == cells[1],
    }


def real_step(setup: Path, name: str) -> dict[str, Any]:
    """A step of the paper's network and batch, its gradients cached so that little memory does."""
    place = setup.parent / "resnet50"
    # Two classes have fewer test images, which all pass the network in the probes.
    words = f"""train images --data {name} --classes 2 --max-train-images 256 --batch-size 256
        --encoder resnet50 --hidden-dim 512 --augmentation simclr --epochs 1 --cache-chunk 32
        --channels-last --loss bayesian --device cpu""".split()
    step = carry_out(setup, [*words, "--out", str(place)])
    result = json.loads((place / "result.json").read_text())
    return {
        **step.figures,
        "command": shlex.join(["bayescl", *words]),
        "loss": round(result["loss"], 4),
        "seconds_per_step": round(result["seconds_per_epoch"], 1),
        "checkpoint_mb": megabytes(place / "checkpoints" / "last.ckpt"),
        "run_folder_mb": megabytes(place),
        "saved_gib_of_256_images": {str(side): round(saved_gib(side), 1) for side in (32, 64)},
    }


def saved_gib(side: int) -> float:
    """What autograd keeps of two views of 256 images of that side, in bfloat16, not compiled."""

    def kept(batch: int) -> int:
        encoder = TorchvisionEncoder("resnet50", image_size=side)
        encoder.to(memory_format=torch.channels_last)
        own = {tensor.data_ptr() for tensor in [*encoder.parameters(), *encoder.buffers()]}
        seen: dict[int, torch.UntypedStorage] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                seen[storage.data_ptr()] = storage
            return tensor

        views = torch.rand(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16):
            encoder(views)
        return sum(storage.nbytes() for storage in seen.values())

    few, more = 2, 4
    return 2 * 256 * (kept(more) - kept(few)) / (more - few) / GIB


def main() -> int:
    """Rehearse, print and write."""
    if sys.argv[1:2] == ["--inside"]:
        return inside(Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="its rehearsal/ is emptied")
    parser.add_argument("--keep", action="store_true", help="keep the archives")
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--images", type=int, default=100_000, help="of a table's run, at most")
    parser.add_argument("--share", type=float, default=1.0, help="fewer images, to try the script")
    options = parser.parse_args()
    work = options.folder.resolve() / "rehearsal"
    try:
        body = rehearse(work, options.datasets, options.share, options.images)
    finally:
        for entry in work.iterdir():
            if entry.name != "archives" or not options.keep:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if options.share == 1:
        words = ["--datasets", *options.datasets, "--images", str(options.images)]
        line = ["python", "benchmarks/rehearse_reproduce.py", "--folder", "FOLDER", *words]
        Console().print("written to", write_result("rehearse-reproduce", shlex.join(line), body))
    return 0


if __name__ == "__main__":
    sys.exit(main())

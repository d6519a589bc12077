"""``bayescl reproduce`` rehearsed: generated images in the published form and number, one epoch.

    python benchmarks/rehearse_reproduce.py --folder FOLDER

Writes the archives of CIFAR-10, STL-10, CIFAR-100 and Tiny ImageNet with random images into
FOLDER, where 15 GB must be free, serves them on this machine, and gives each step to a process of
its own: download and verify; decode to pixels; ``reproduce multiclass --size rehearsal`` with one
loss; a step of ResNet-50 at batch 256, with its gradients cached by 32 images; the probes on random
features of ResNet-50's width and the largest data set's size. Writes each step's seconds, those of
the processor, the peak of the memory that is no file's and the peak with mapped pixels to a dated
JSON file in ``benchmarks/results``. All start Python and torch anew. One thread trains. Checksums
are those of the generated archives.

``--share`` makes every data set smaller, to try the script; nothing is then written. ``--keep``
keeps the archives, which the next call then uses.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from harness import options, write_result
from rehearsal.archives import md5, put_in_place, write_archive
from rich.console import Console

from bayescl_lab.cli import main as bayescl
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.encoders import ResNetEncoder
from bayescl_lab.images.probes import ProbeData, few_label_probe, knn_probe
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
TABLE = "reproduce multiclass --size rehearsal --workers 1 --device cpu --losses bayesian"


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


def carry_out(setup: Path, words: list[str], program: Path = Path(__file__)) -> dict[str, Any]:
    """Run one step in a process of its own, and watch its memory.

    ``setup`` is a file for :func:`inside`: archives and the folder of data. ``words`` are a command
    line of bayescl, or ``pixels`` or ``probes`` and the name of a data set.

    Returns seconds by the clock and of the processor; in MiB the peak of memory that is no file's
    and the peak with mapped pixels; and the last line of the output.
    """
    line = [sys.executable, str(program), "--inside", str(setup), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = setup.with_suffix(".log")
    start, own, ended = time.perf_counter(), 0.0, 0
    with log.open("w") as output:
        process = subprocess.Popen(line, env=environment, stdout=output, stderr=subprocess.STDOUT)
        while not ended:
            own = max(own, _own_memory(process.pid))
            time.sleep(0.05)
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)  # so that it is not waited for again
    said = log.read_text().splitlines()
    if process.returncode:
        raise RuntimeError(f"{shlex.join(words)} ended with {process.returncode}: {said[-5:]}")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "own_mib": round(own / MIB),
        "peak_mib": round(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MIB),
        "said": said[-1] if said else "",
    }


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
    few = partial(few_label_probe, draws=DRAWS)
    times = {"knn": seconds_of(knn_probe, data)}
    for labels in (1, 5):
        drawn = seconds_of(partial(few, labels_per_class=labels), data)
        times[f"few_label_{labels}"] = drawn * OF_DRAWS / DRAWS
    print(json.dumps({title: round(seconds, 1) for title, seconds in times.items()}))
    return 0


def seconds_of(probe: Callable[[ProbeData], object], data: ProbeData) -> float:
    """How long a probe takes."""
    start = time.perf_counter()
    probe(data)
    return time.perf_counter() - start


def rehearse(work: Path, names: list[str], share: float, images: int) -> dict[str, Any]:
    """Every step, and its figures; archives of an earlier call in the folder are used again."""
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
            figures["fetch"] = carry_out(setup, ["data", "fetch", name])
    for name, figures in sets.items():
        figures["pixels"] = carry_out(setup, ["pixels", name])
        figures["disk_mb"] = megabytes(data / name)
        place = work / f"table-{name}"
        words = f"{TABLE} --datasets {name} --max-train-images {images}"
        figures["table"] = carry_out(setup, [*words.split(), "--out", str(place)])
        (run,) = (place / "runs").iterdir()
        figures["table"]["images"] = json.loads((run / "result.json").read_text())["images"]
        console.print(figures)
    largest = names[-1]
    step = carry_out(setup, ["probes", largest, str(share)])
    return {
        "images_of_a_table": f"at most {images:,}",
        "data_sets": list(sets.values()),
        "resnet50": real_step(setup, names[0]),
        "probes_are_of": f"{FEATURES} features, few labels {OF_DRAWS} times from {DRAWS} timed",
        "probes": {"data": largest, **step, "seconds_of": json.loads(step["said"])},
    }


def megabytes(place: Path) -> float:
    """Size of a file, or of all files in a folder."""
    files = [file for file in place.rglob("*") if file.is_file()] if place.is_dir() else [place]
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


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
        **step,
        "command": shlex.join(["bayescl", *words]),
        "seconds_per_step": round(result["seconds_per_epoch"], 1),
        "checkpoint_mb": megabytes(place / "checkpoints" / "last.ckpt"),
        "run_folder_mb": megabytes(place),
        "saved_gib_of_256_images": {str(side): round(saved_gib(side), 1) for side in (32, 64)},
    }


def saved_gib(side: int) -> float:
    """What autograd keeps of two views of 256 images of that side, in bfloat16, not compiled."""

    def kept(batch: int) -> int:
        encoder = ResNetEncoder("resnet50", image_size=side)
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
    """Rehearse, print and write; with less ``share`` only to try the script."""
    if sys.argv[1:2] == ["--inside"]:
        return inside(Path(sys.argv[2]), sys.argv[3:])
    sets = list(DATASETS)
    chosen = options(__doc__, "keep", folder=Path(), datasets=sets, images=100_000, share=1.0)
    work = chosen.folder.resolve() / "rehearsal"
    try:
        body = rehearse(work, chosen.datasets, chosen.share, chosen.images)
    finally:
        for entry in work.iterdir():
            if entry.name != "archives" or not chosen.keep:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if chosen.share == 1:
        words = ["--datasets", *chosen.datasets, "--images", str(chosen.images)]
        line = ["python", "benchmarks/rehearse_reproduce.py", "--folder", "FOLDER", *words]
        print(write_result("rehearse-reproduce", body | {"command": shlex.join(line)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

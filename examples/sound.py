"""Learn spoken digits from raw sound, without labels.

pip install . scipy && python examples/sound.py

Needs the Free Spoken Digit Dataset (3,000 recordings, 10 words, 6 speakers; CC BY-SA 4.0):
download https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz
as ``spoken-digits.tar.gz`` into the folder ``$BAYESCL_DATA``, or into ``data`` if that is not set.
Training takes about two minutes.

With ``--pitch 0``, views keep the pitch, which differs between speakers.
"""

import argparse
import io
import os
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.io import wavfile
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl

SIDE = 32  # mel bands, and moments in time, of a picture
WINDOW, HOP = 256, 64  # samples, of 8,000 a second


class Recordings(NamedTuple):
    """Pictures ``[recordings, 1, mel, time]`` in [0, 1], and what was said by whom."""

    pictures: Tensor
    words: Tensor
    speakers: Tensor

    def at(self, rows: Tensor) -> "Recordings":
        """Some of the recordings."""
        return Recordings(*(each[rows] for each in self))


def mel_bank() -> np.ndarray:
    """Triangular filters from 60 to 3,900 Hz, evenly spaced as ears hear them, ``[mel, bins]``."""
    lowest, highest = (2595 * np.log10(1 + hertz / 700) for hertz in (60, 3900))
    edges = 700 * (10 ** (np.linspace(lowest, highest, SIDE + 2) / 2595) - 1)
    hertz = np.linspace(0, 4000, WINDOW // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (hertz - low) / (middle - low), (high - hertz) / (high - middle)
    return np.minimum(rising, falling).clip(0)


def log_mel_picture(sound: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """Loudness by pitch and time, ``[mel, time]``, of a recording of any length."""
    sound = np.pad(sound.astype(np.float64), (0, max(0, WINDOW + SIDE * HOP - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP] * np.hanning(WINDOW)
    loudness = np.log(bank @ (np.abs(np.fft.rfft(frames)) ** 2).T + 1e-3 * WINDOW)
    moments = np.linspace(0, loudness.shape[1] - 1, SIDE)
    numbers = np.arange(loudness.shape[1])
    picture = np.stack([np.interp(moments, numbers, band) for band in loudness])
    quiet, loud = np.percentile(picture, 5), picture.max()
    return ((picture - quiet) / (loud - quiet + 1e-6)).clip(0, 1)


def spoken_digits() -> tuple[Recordings, Recordings]:
    """Training and test recordings; each speaker's first five of each word are for the test."""
    file = Path(os.environ.get("BAYESCL_DATA", "data")) / "spoken-digits.tar.gz"
    if not file.exists():
        raise SystemExit(f"there is no {file}: download it as the head of this file says")
    bank, rows = mel_bank(), []
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.endswith(".wav"):
                _, sound = wavfile.read(io.BytesIO(archive.extractfile(member).read()))
                word, speaker, number = Path(member.name).stem.split("_")
                sound = sound if sound.ndim == 1 else sound.mean(1)
                picture = log_mel_picture(sound, bank)
                rows.append((int(word), speaker, int(number), picture))
    rows.sort(key=lambda row: row[:3])
    words, speakers, numbers, pictures = zip(*rows, strict=True)
    everything = Recordings(
        torch.from_numpy(np.stack(pictures)).float().unsqueeze(1),
        torch.tensor(words),
        torch.from_numpy(np.unique(speakers, return_inverse=True)[1]),
    )
    test = torch.tensor(numbers) < 5
    return everything.at(~test), everything.at(test)


def view(pictures: Tensor, pitch: float = 0.15) -> Tensor:
    """The same words said differently: earlier or later, faster or slower, higher or lower, masked.

    Args:
        pictures: ``[batch, 1, mel, time]``.
        pitch: how far it may move, as a share of the bands.
    """
    batch = len(pictures)

    def between(low: float, high: float) -> Tensor:
        return torch.empty(batch).uniform_(low, high)

    change = torch.zeros(batch, 2, 3)  # of places in time and pitch, from -1 to 1
    change[:, 0, 0] = between(0.8, 1.25)  # stretch
    change[:, 0, 2] = between(-0.25, 0.25)  # shift
    change[:, 1, 1] = 1 + between(-0.5, 0.5) * pitch
    change[:, 1, 2] = between(-2, 2) * pitch
    grid = F.affine_grid(change, list(pictures.shape), align_corners=False)
    seen = F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
    places = torch.arange(SIDE)
    for axis in (2, 3):  # a few bands, and a few moments, are not heard
        start, width = between(0, SIDE)[:, None], between(0, SIDE / 5)[:, None]
        masked = (places >= start) & (places < start + width)
        seen = seen.masked_fill(masked[:, None, :, None] if axis == 2 else masked[:, None, None], 0)
    loudness = between(0.7, 1.3).view(-1, 1, 1, 1)
    return seen * loudness + 0.1 * torch.rand(batch, 1, 1, 1) * torch.randn(seen.shape)


def encoder() -> nn.Sequential:
    """A small network from pictures to 64 features."""
    layers: list[nn.Module] = []
    for channels, wider in ((1, 16), (16, 32), (32, 64)):
        convolution = nn.Conv2d(channels, wider, 3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(wider), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def train(loss: bayescl.ContrastiveLoss, data: Recordings, options: object) -> nn.Module:
    """Train an encoder so that two views of a recording agree."""
    torch.manual_seed(options.seed)
    network = encoder()
    head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=2e-3)
    steps = options.epochs * (len(data.words) // 256)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(options.epochs):
        for rows in torch.randperm(len(data.words)).split(256)[: len(data.words) // 256]:
            views = [head(network(view(data.pictures[rows], options.pitch))) for _ in range(2)]
            value = loss(*views)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def known(labels: Tensor, per_class: int, seed: int) -> Tensor:
    """The labels of a few rows of each class, and -1 for all other rows."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    kept = torch.full_like(labels, -1)
    for label in labels.unique():
        rows = order[labels[order] == label][:per_class]
        kept[rows] = label
    return kept


@torch.no_grad()
def scores(network: nn.Module, data: Recordings, test: Recordings) -> dict[str, float]:
    """Accuracy by the 10 nearest recordings, and by the class means of five labeled ones."""
    features, unseen = (F.normalize(network(part.pictures), dim=1) for part in (data, test))
    nearest = (unseen @ features.T).topk(10, dim=1).indices
    accuracies = {}
    for name in ("words", "speakers"):
        labels, wanted = getattr(data, name), getattr(test, name)
        votes = F.one_hot(labels[nearest]).sum(1).argmax(1)
        accuracies[f"{name}, k-NN"] = float((votes == wanted).float().mean())
        few = []
        for draw in range(20):
            labeled = known(labels, 5, draw)
            means = torch.stack([features[labeled == label].mean(0) for label in labels.unique()])
            few.append(((unseen @ F.normalize(means, dim=1).T).argmax(1) == wanted).float().mean())
        accuracies[f"{name}, 5 labels"] = float(torch.stack(few).mean())
    return accuracies


def main() -> None:
    """Train with two losses and print what their encoders know."""
    parser = argparse.ArgumentParser(description="Learn spoken digits from raw sound.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--pitch", type=float, default=0.15, help="how far views move it")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data, test = spoken_digits()
    for name, loss in (
        ("InfoNCE", bayescl.InfoNCELoss(temperature=0.25)),
        ("Bayesian", bayescl.BayesianContrastiveLoss(num_classes=10, temperature=0.25)),
    ):
        network = train(loss, data, options)
        figures = [f"{what} {value:.1%}" for what, value in scores(network, data, test).items()]
        print(f"{name}: {'; '.join(figures)}", flush=True)


if __name__ == "__main__":
    main()

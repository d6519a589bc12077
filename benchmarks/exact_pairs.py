"""Whether a loss still finds the exact partner, and how many near neighbours are of its class.

    python benchmarks/exact_pairs.py
    python benchmarks/exact_pairs.py --adapters

Two towers learn made-up pairs of 20 classes with ``in_batch``: 400 steps of 256 pairs. A pair is
what its class and a part of its own make of it, seen by two random maps with noise. On 1,000 unseen
pairs, R@1 is the share of anchors whose nearest candidate is their own partner; P@10 and P@40 are
the shares of the nearest 10 and 40 that are of the anchor's class.

With ``--adapters`` the same towers are trained through the losses of open_clip and
sentence-transformers and through ours in their place, as those libraries call them: with a
dictionary of features and a logit scale, and with columns of texts.

Writes ``benchmarks/results/exact-pairs.json``; each of the two commands leaves the other's figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

import torch
from harness import RESULTS, options, write_json
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.runs.provenance import provenance

CLASSES, STEPS, BATCH, UNSEEN = 20, 400, 256, 1000
OWN, WIDTH = 16, 64
"""Coordinates of a class and of a pair's own part; and of what a tower sees and returns."""

Pairs = tuple[Tensor, Tensor, Tensor]

_LATENT = partial(bayescl.LatentClassContrastiveLoss, num_classes=CLASSES)
LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "InfoNCE": bayescl.InfoNCELoss,
    **{f"latent classes, {aim}": partial(_LATENT, aim=aim) for aim in ("pairs", "classes")},
    "oracle": bayescl.OracleContrastiveLoss,
    "supervised": bayescl.SupervisedContrastiveLoss,
}
ADAPTED: dict[str, dict[str, int]] = {
    "InfoNCE": {},
    "latent classes": {"num_classes": CLASSES},
    "latent classes, no arguments": {},
}
"""Arguments of a loss in an adapter's trial, where InfoNCE is the other library's own loss."""


def made_up_pairs(seed: int) -> tuple[Pairs, Pairs]:
    """Training and unseen pairs: labels, and what each tower sees."""
    generator = torch.Generator().manual_seed(seed)
    classes = 1.2 * torch.randn(CLASSES, OWN, generator=generator)
    maps = [torch.randn(2 * OWN, WIDTH, generator=generator) / (2 * OWN) ** 0.5 for _ in range(2)]

    def pairs(count: int) -> Pairs:
        labels = torch.randint(CLASSES, (count,), generator=generator)
        content = torch.cat([classes[labels], torch.randn(count, OWN, generator=generator)], dim=1)
        first, second = (
            torch.tanh(content @ each) + 0.3 * torch.randn(count, WIDTH, generator=generator)
            for each in maps
        )
        return labels, first, second

    return pairs(8000), pairs(UNSEEN)


def directly(towers: nn.ModuleList, pairs: Pairs, name: str, temperature: float) -> Any:
    """Steps of a loss of this package; and the loss."""
    loss = LOSSES[name](temperature=temperature)
    labels, first, second = pairs

    def step(rows: Tensor) -> Tensor:
        groups = labels[rows] if loss.needs_groups else None
        return loss.in_batch(towers[0](first[rows]), towers[1](second[rows]), groups=groups)

    return step, loss


def through_open_clip(towers: nn.ModuleList, pairs: Pairs, name: str, temperature: float) -> Any:
    """Steps as open_clip trains: features of length 1 and a logit scale; and the loss."""
    from open_clip.loss import ClipLoss

    from bayescl.integrations import open_clip as ours

    loss = (
        ClipLoss()
        if name == "InfoNCE"
        else ours.ClipLoss(loss=bayescl.LatentClassContrastiveLoss, **ADAPTED[name])
    )
    _, *views = pairs

    def step(rows: Tensor) -> Tensor:
        image, text = (
            F.normalize(tower(view[rows]), dim=1) for tower, view in zip(towers, views, strict=True)
        )
        features = {"image_features": image, "text_features": text}
        scale = torch.tensor(1 / temperature)
        return sum(loss(**features, logit_scale=scale, output_dict=True).values())

    return step, loss


def through_texts(towers: nn.ModuleList, pairs: Pairs, name: str, temperature: float) -> Any:
    """Steps as sentence-transformers trains: columns of tokenized texts; and the loss.

    A text is the number of a pair's first or second side, so the model is a table of what each
    number looks like and the tower of its side.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss

    _, *views = pairs

    class Towers(InputModule):
        def __init__(self) -> None:
            super().__init__()
            self.towers = towers

        def preprocess(self, inputs: Any, **_: Any) -> dict[str, Tensor]:
            tokens = torch.tensor([[int(word) for word in text.split()] for text in inputs])
            return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            side, numbers = features["input_ids"][0, 0], features["input_ids"][:, 1]
            features["sentence_embedding"] = self.towers[side](views[side][numbers])
            return features

        def save(self, output_path: str, *_: Any, **__: Any) -> None:
            raise NotImplementedError("these towers are not saved")

    model = SentenceTransformer(modules=[Towers()], device="cpu").train()
    loss = MultipleNegativesRankingLoss(model, scale=1 / temperature)
    if name != "InfoNCE":
        own = bayescl.LatentClassContrastiveLoss(temperature=temperature, **ADAPTED[name])
        loss = ContrastiveRankingLoss(model, own)

    def step(rows: Tensor) -> Tensor:
        columns = [[f"{side} {row}" for row in rows.tolist()] for side in range(2)]
        return loss([model.preprocess(column) for column in columns], None)

    return step, loss


def scores(trial: Any, name: str, temperature: float, seed: int) -> dict[str, float]:
    """Train two towers and score them on unseen pairs."""
    pairs, (unseen, *views) = made_up_pairs(seed)
    torch.manual_seed(seed)
    towers = nn.ModuleList(
        nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)) for _ in range(2)
    )
    step, loss = trial(towers, pairs, name, temperature)
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    for _ in range(STEPS):
        value = step(torch.randint(len(pairs[0]), (BATCH,)))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    with torch.no_grad():
        rows, columns = (
            F.normalize(tower(view), dim=1) for tower, view in zip(towers, views, strict=True)
        )
    nearest = (rows @ columns.T).topk(40, dim=1).indices
    same = (unseen[nearest] == unseen[:, None]).float()
    return {
        "r_1": float((nearest[:, 0] == torch.arange(UNSEEN)).float().mean()),
        "p_10": float(same[:, :10].mean()),
        "p_40": float(same.mean()),
        "trust": float(getattr(getattr(loss, "loss", loss), "trust", 0.0)),
    }


def main() -> None:
    """Train, score and write; seeds are from 1, at least 2."""
    chosen = options(__doc__, "adapters", seeds=3)
    installed = {}
    trials = product([("", directly)], (0.05, 0.1, 0.25), LOSSES)
    if chosen.adapters:
        libraries = {"open_clip": through_open_clip, "sentence-transformers": through_texts}
        installed = {name: version(name) for name in ("open_clip_torch", "sentence-transformers")}
        trials = product(libraries.items(), (0.05, 0.1), ADAPTED)
    records: list[dict[str, Any]] = []
    for (library, trial), temperature, name in trials:
        runs = [scores(trial, name, temperature, 1 + seed) for seed in range(chosen.seeds)]
        figures = {key: mean_and_spread([run[key] for run in runs]) for key in runs[0]}
        about = {"library": library, "temperature": temperature, "loss": name}
        records.append(about | figures)
        print(records[-1], flush=True)
    file = RESULTS / "exact-pairs.json"
    content = {"seeds": chosen.seeds, "records": records}
    earlier = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if chosen.adapters:
        content = {**earlier, "adapters": {**content, **provenance(), "libraries": installed}}
    elif "adapters" in earlier:
        content["adapters"] = earlier["adapters"]
    write_json(file, content)


if __name__ == "__main__":
    main()

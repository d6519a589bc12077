"""The time that adapters add to a step, and the memory of a ranking loss.

    python benchmarks/integrations_cost.py

Each adapter takes turns with a direct call of the same loss on the same inputs, on one thread, in
processor time: first on embeddings alone, where an adapter's share is largest, then in a whole
training step (forward, backward, optimizer) of a small network. The memory is what a step of
``ContrastiveRankingLoss`` and of ``MultipleNegativesRankingLoss`` on embeddings adds to the peak of
a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any, NamedTuple

import torch
from harness import apart, median_ratio, options, peak_mib, time_side_by_side, write_result
from sentence_transformers.base.losses.merged_forward import embed_columns
from torch import Tensor, nn

import bayescl
from bayescl.integrations import sentence_transformers as texts

WORDS, LENGTH = 1000, 16
IMAGES = 32


LOSSES: dict[str, type[bayescl.ContrastiveLoss]] = {
    "InfoNCE": bayescl.InfoNCELoss,
    "Bayesian": bayescl.BayesianContrastiveLoss,
}
ALONE, TRAINING = "loss alone", "training step"
LIBRARIES = ("transformers", "lightly", "pytorch-metric-learning", "open_clip_torch")
LIBRARIES += ("sentence-transformers",)


class Case(NamedTuple):
    """Two ways to one step."""

    adapter_of: str
    batch: int
    direct: Callable[[], Tensor]
    adapter: Callable[[], Tensor]
    parameters: list[Tensor]
    """What is trained; for the loss alone the embeddings, which only receive gradients."""


class SmallBert(nn.Module):
    """The part of a sentence encoder that costs: two layers of 128 on tokens."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        settings = {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
        self.network = BertModel(BertConfig(vocab_size=WORDS, num_hidden_layers=2, **settings))

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add embeddings to tokens."""
        tokens, mask = features["input_ids"], features["attention_mask"]
        rows = self.network(input_ids=tokens, attention_mask=mask).last_hidden_state
        return {**features, "sentence_embedding": rows.mean(1)}


class Ready(nn.Module):
    """An encoder that costs nothing: the columns' embeddings are there already."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return them."""
        return features


def cases(name: str, what: str, batch: int) -> Iterator[Case]:
    """Every adapter on embeddings of 128 that are there already, or in a step of a small network.

    The networks: a BERT of two layers on 64 pairs, lightly's SimCLR example on 32 images, which
    serves pytorch-metric-learning too, and a CLIP of two layers on 64 pairs.
    """
    from bayescl.integrations import lightly, open_clip, pytorch_metric_learning

    own = LOSSES[name]
    alone = what == ALONE
    rows = [torch.randn(batch, 128, requires_grad=True) for _ in range(2)]

    def case(library: str, model: nn.Module, *ways: Callable[[], Tensor]) -> Case:
        return Case(library, batch, *ways, rows if alone else list(model.parameters()))

    bert: Any = Ready() if alone else SmallBert()
    tokens = torch.randint(WORDS, (2, batch, LENGTH))
    columns = [{"input_ids": side, "attention_mask": torch.ones_like(side)} for side in tokens]
    for column, embeddings in zip(columns if alone else (), rows, strict=False):
        column["sentence_embedding"] = embeddings
    loss = own(temperature=0.05)
    for note, duplicates in (("", "mask"), (', duplicates="keep"', "keep"))[: 1 + alone]:
        ranking = texts.ContrastiveRankingLoss(bert, loss, duplicates=duplicates)
        yield case(
            f"sentence-transformers{note}",
            bert,
            lambda: loss.in_batch(*embed_columns(bert, columns)),
            partial(ranking, columns),
        )
    simclr, clip_model = (Ready(), Ready()) if alone else image_networks()
    views = rows if alone else [torch.randn(IMAGES, 3, 32, 32) for _ in range(2)]
    two = own(temperature=0.5)
    criterion = lightly.NTXentLoss(0.5, loss=own)
    metric = pytorch_metric_learning
    wrapped = metric.SelfSupervisedLoss(metric.NTXentLoss(0.5, loss=own))
    for library, adapter in (("lightly", criterion), ("pytorch-metric-learning", wrapped)):
        yield case(
            library,
            simclr,
            lambda: two(*map(simclr, views)),
            lambda adapter=adapter: adapter(*map(simclr, views)),
        )._replace(batch=len(views[0]))
    scale = torch.tensor(2.0, requires_grad=True)
    inputs = torch.randn(batch, 3, 32, 32), torch.randint(WORDS, (batch, LENGTH))
    unscaled = own(normalize=False)
    clip = open_clip.ClipLoss(loss=own)

    def features() -> dict[str, Tensor]:
        ready = dict(zip(("image_features", "text_features"), rows, strict=True))
        return ready | {"logit_scale": scale} if alone else clip_model(*inputs)

    def direct_clip() -> Tensor:
        image, text, factor = features().values()
        return unscaled.in_batch(image, text, both_directions=True, temperature=1 / factor)

    yield case("open_clip", clip_model, direct_clip, lambda: clip(**features()))


def image_networks() -> tuple[nn.Module, nn.Module]:
    """SimCLR's and CLIP's networks."""
    import open_clip
    import torchvision
    from lightly.models.modules import SimCLRProjectionHead

    resnet = torchvision.models.resnet18()
    backbone = nn.Sequential(*list(resnet.children())[:-1], nn.Flatten())
    clip = open_clip.CLIP(
        embed_dim=64,
        vision_cfg=open_clip.CLIPVisionCfg(
            layers=2, width=64, head_width=32, patch_size=8, image_size=32
        ),
        text_cfg=open_clip.CLIPTextCfg(context_length=LENGTH, width=64, heads=2, layers=2),
        output_dict=True,
    )
    return nn.Sequential(backbone, SimCLRProjectionHead(512, 512, 128)), clip


def time_of(case: Case, name: str, what: str, rounds: int) -> dict[str, Any]:
    """Both ways of a case, in milliseconds, and what the adapter adds."""
    optimizer = torch.optim.SGD(case.parameters, lr=1e-6)

    def step(value: Callable[[], Tensor]) -> None:
        optimizer.zero_grad()
        value().backward()
        if what == TRAINING:
            optimizer.step()

    ways = {"direct": partial(step, case.direct), "adapter": partial(step, case.adapter)}
    measured = time_side_by_side(ways, rounds=rounds, warmup=5, clock=time.process_time)
    direct, adapter = measured["direct"], measured["adapter"]
    ratio = median_ratio(adapter, direct)
    return {
        "adapter_of": case.adapter_of,
        "what": what,
        "loss": name,
        "batch": case.batch,
        "direct_ms": round(1000 * direct.median, 3),
        "adapter_ms": round(1000 * adapter.median, 3),
        "added_percent": round(100 * (ratio - 1), 2),
    }


def memory_of(name: str, batch: int) -> float:
    """Mebibytes that a step on embeddings of 256 adds to the peak memory of this process."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    ways = {"ours": texts.ContrastiveRankingLoss, "theirs": MultipleNegativesRankingLoss}
    loss, before = ways[name](Ready()), 0.0
    for rows in (64, batch):  # the first step loads what every step needs
        before = peak_mib()
        tokens = torch.arange(2 * rows * LENGTH).view(2, rows, LENGTH)
        columns = [{"input_ids": side, "attention_mask": torch.ones_like(side)} for side in tokens]
        for column in columns:
            column["sentence_embedding"] = torch.randn(rows, 256, requires_grad=True)
        loss(columns, None).backward()
    return peak_mib() - before


def rows_of(part: str) -> Iterator[dict[str, Any]]:
    """What a part measures, one row at a time."""
    if part == "memory":
        for name, batch in product(("ours", "theirs"), (1024, 4096)):
            yield {"loss": name, "batch": batch, "mebibytes": apart(memory_of, name, batch)}
    elif part == "training-step":
        for case in cases("Bayesian", TRAINING, 64):
            yield time_of(case, "Bayesian", TRAINING, 121)
    else:
        for name, (batch, rounds) in product(LOSSES, ((256, 401), (1024, 121))):
            for case in cases(name, ALONE, batch):
                yield time_of(case, name, ALONE, rounds)


def main() -> None:
    """Measure, print and write a file for each part."""
    chosen = options(__doc__, parts=["loss-alone", "training-step", "memory"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    libraries = {name: version(name) for name in LIBRARIES}
    for part in chosen.parts:
        body = {"threads": 1, "libraries": libraries, "rows": list(rows_of(part))}
        print(f"{body}\nwritten to {write_result(f'integrations-{part}', body)}")


if __name__ == "__main__":
    main()

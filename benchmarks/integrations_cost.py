"""What the adapters add to a step, and the memory of the cached sentence-transformers loss.

    python benchmarks/integrations_cost.py

Each adapter is timed side by side with a direct call of our loss on the same inputs: that of
sentence-transformers around a small BERT, the others on embeddings alone, where an adapter's share
is largest. Memory is the growth of the peak resident memory by one cached step on the embeddings
of 8,192 pairs, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import median_ratio, time_side_by_side, write_result
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer import losses as theirs

from bayescl import BayesianContrastiveLoss
from bayescl.integrations import lightly, open_clip, pytorch_metric_learning
from bayescl.integrations import sentence_transformers as texts

WORDS = 1000
PAIRS, DIM = 8192, 256
CACHED: dict[str, Callable[[Any], Any]] = {
    "CachedMultipleNegativesRankingLoss": theirs.CachedMultipleNegativesRankingLoss,
    "CachedInfoNCERankingLoss": texts.CachedInfoNCERankingLoss,
    "CachedBayesianRankingLoss": texts.CachedBayesianRankingLoss,
    "CachedBayesianRankingLoss, with duplicates": texts.CachedBayesianRankingLoss,
}


class SmallBert(torch.nn.Module):
    """The part of a sentence encoder that costs: two layers of 128 on tokens."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        settings = {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
        self.network = BertModel(BertConfig(vocab_size=WORDS, num_hidden_layers=2, **settings))

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Add embeddings to tokens."""
        tokens, mask = features["input_ids"], features["attention_mask"]
        rows = self.network(input_ids=tokens, attention_mask=mask).last_hidden_state
        return {**features, "sentence_embedding": rows.mean(1)}


def text_steps() -> dict[str, Callable[[], object]]:
    """A step of 2 x 128 texts of 16 tokens."""
    model: Any = SmallBert()
    columns = [
        {
            "input_ids": torch.randint(WORDS, (128, 16)),
            "attention_mask": torch.ones(128, 16, dtype=torch.int64),
        }
        for _ in range(2)
    ]
    loss = BayesianContrastiveLoss(temperature=0.05)
    wrapped = texts.ContrastiveRankingLoss(model, loss)

    def direct() -> None:
        loss.in_batch(*embed_columns(model, columns)).backward()

    return {"direct": direct, "adapter": lambda: wrapped(columns, None).backward()}


def embedding_steps(name: str) -> dict[str, Callable[[], object]]:
    """A step of 2 x 512 embeddings of 128."""
    views = [torch.randn(512, 128, requires_grad=True) for _ in range(2)]
    loss = BayesianContrastiveLoss(temperature=0.5)
    if name == "lightly":
        criterion = lightly.BayesianNTXentLoss(0.5)
        return {
            "direct": lambda: loss(*views).backward(),
            "adapter": lambda: criterion(*views).backward(),
        }
    if name == "pytorch-metric-learning":
        wrapped = pytorch_metric_learning.SelfSupervisedLoss(
            pytorch_metric_learning.BayesianNTXentLoss(0.5)
        )
        return {
            "direct": lambda: loss(*views).backward(),
            "adapter": lambda: wrapped(*views).backward(),
        }
    rows = [torch.nn.functional.normalize(view.detach(), dim=1).requires_grad_() for view in views]
    scale = torch.tensor(2.0, requires_grad=True)
    unscaled = BayesianContrastiveLoss(normalize=False)
    clip = open_clip.BayesianClipLoss()
    return {
        "direct": lambda: unscaled.in_batch(
            *rows, both_directions=True, temperature=1 / scale
        ).backward(),
        "adapter": lambda: clip(*rows, scale).backward(),
    }


def extra_megabytes(name: str) -> float:
    """Peak memory that a cached step adds in this process, after a small one."""
    model: Any = SmallBert()
    model = SentenceTransformer(modules=[model], device="cpu")
    loss = CACHED[name](model)

    def step(pairs: int) -> float:
        columns = [
            [torch.randn(32, DIM, requires_grad=True) for _ in range(pairs // 32)] for _ in range(2)
        ]
        options = {}
        if not name.startswith("CachedMultiple"):
            keys = torch.arange(2 * pairs).view(2, pairs)
            if name.endswith("duplicates"):
                keys[1, 1::2] = keys[1, ::2]
            options["labels"] = texts.BatchNotes(list(keys), [])
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
        before = megabytes("VmRSS")
        loss.calculate_loss(columns, with_backward=True, **options)
        return megabytes("VmHWM") - before

    step(64)
    return step(PAIRS)


def megabytes(name: str) -> float:
    """Resident memory of this process: now (VmRSS) or at its peak (VmHWM). Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        sys.stdout.write(json.dumps(extra_megabytes(arguments.child)))
        return
    console = Console()
    times, table = [], Table("adapter", "direct ms", "adapter ms", "ratio")
    for name in ("sentence-transformers", "lightly", "open_clip", "pytorch-metric-learning"):
        short = name != "sentence-transformers"
        steps = embedding_steps(name) if short else text_steps()
        found = time_side_by_side(steps, rounds=arguments.rounds * (5 if short else 1))
        ratio = median_ratio(found["adapter"], found["direct"])
        row = {each: round(1000 * found[each].median, 3) for each in ("direct", "adapter")}
        times.append({"adapter_of": name, **row, "ratio": round(ratio, 4)})
        table.add_row(name, str(row["direct"]), str(row["adapter"]), f"{ratio:.3f}")
    console.print(table)
    memory, table = [], Table("cached step on 8,192 x 256", "extra MB (median)")
    for name in CACHED:
        command = [sys.executable, __file__, "--child", name]
        found_mb = sorted(
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(arguments.repeats)
        )
        median = found_mb[len(found_mb) // 2]
        memory.append({"loss": name, "extra_mb": [round(one, 1) for one in found_mb]})
        table.add_row(name, f"{median:.0f}")
    console.print(table)
    command_line = shlex.join(["python", "benchmarks/integrations_cost.py", *sys.argv[1:]])
    body = {"milliseconds": times, "memory": memory}
    console.print(f"written to {write_result('integrations-cost', command_line, body)}")


if __name__ == "__main__":
    main()

"""Soft targets from a teacher: what they gain, and where they cost something.

    python benchmarks/evidence_sets.py build/evidence-data
    BAYESCL_DATA=build/evidence-data python benchmarks/evidence.py --minutes 60

One plan of runs, the most important first: gains with a small share, no regret with a share of
one half, exact pairs, nuisances that views remove, variants, and other people's methods. The
teacher is the unaugmented item in the same network, in the same mode, without gradient. Every
finished run is a line of ``benchmarks/results/evidence.jsonl`` and is not run again. Sets whose
data are absent are skipped.

Writes ``benchmarks/results/evidence.json``: means and spreads over seeds, and differences from
InfoNCE at the same temperature, paired by seed.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import TimeoutError, get_context
from typing import Any

import torch
from evidence_sets import SETS, DataSet, data_set, why_absent
from exact_pairs import pair_scores
from harness import RESULTS, Journal, by_seed, differences, learn, means, options, write_json
from rivals import FNC, GloFND
from sound import known
from torch import Tensor, nn

import bayescl

SEEDS = (1, 2, 3)
FIRST = ("digits", "marks", "batches-20")
"""Sets on which variants and other losses run."""

Losses = dict[str, Callable[..., bayescl.ContrastiveLoss]]
LOSSES: Losses = {
    "info_nce": bayescl.InfoNCELoss,
    "domains": bayescl.InfoNCELoss,
    "bayesian": partial(bayescl.BayesianContrastiveLoss, beta=0.5),
    "bayesian_hard": partial(bayescl.BayesianContrastiveLoss, beta=0.9),
    "hard": bayescl.HardContrastiveLoss,
    "oracle": bayescl.OracleContrastiveLoss,
}
TITLES = {
    "info_nce": "InfoNCE",
    "domains": "InfoNCE, domains",
    "bayesian": "Bayesian",
    "bayesian_hard": "Bayesian, beta 0.9",
    "hard": "hard",
    "fnc_eliminate": "FNC, left out",
    "fnc_attract": "FNC, attracted",
    "glofnd": "GloFND",
    "oracle": "oracle",
}
"""What a reader sees, in the order of tables."""


@dataclass(frozen=True)
class Variant:
    """How a run differs from the others."""

    head: bool = True  # whether there is a projection head
    batch: int | None = None  # items in a batch; None is the set's own
    # The unaugmented item ("plain"), "view", another view of it, "features", the plain item's
    # embedding before the head, or "frozen", the plain item in another network.
    teacher: str = "plain"
    mode: str = "train"  # of batch normalization in the teacher's pass: "train", "keep" or "eval"
    scale: float = 1.0  # the teacher's temperature as a multiple of the loss's
    momentum: float = 0.0  # of a moving average of the network that embeds the teacher
    labels: int = 0  # of each class that the target knows


VARIANTS = {
    "": Variant(),
    "no head": Variant(head=False),
    "batches of 64": Variant(batch=64),
    "another view as teacher": Variant(teacher="view"),
    "sharper teacher": Variant(scale=0.5),
    "softer teacher": Variant(scale=1.5),
    "moving average": Variant(momentum=0.95),
    "five labels": Variant(labels=5),
    "another network as teacher": Variant(teacher="frozen"),
    "teacher before the head": Variant(teacher="features"),
    "statistics kept": Variant(mode="keep"),
    "teacher in eval mode": Variant(mode="eval"),
}
WITH_BASELINE = ("no head", "batches of 64")
"""Variants that InfoNCE has, too; all others are compared with plain InfoNCE."""


@dataclass(frozen=True)
class Case:
    """One run."""

    data: str  # one of SETS, or "pairs"
    method: str = "info_nce"  # one of TITLES
    temperature: float = 0.2
    share: float = 1.0  # the positive's; 1 is without a teacher
    variant: str = ""  # one of VARIANTS
    seed: int = 1


def plan() -> list[Case]:
    """List the runs, the most important first."""
    return list(dict.fromkeys(_planned()))


def _planned() -> Iterator[Case]:
    temperatures, one, three = (0.2, 0.5), ("info_nce",), ("digits", "marks", "words")
    measured = [name for name in SETS if name.startswith("measured")]
    main = [name for name in SETS if name not in measured]
    nuisances = "marks", "stripes", "backgrounds", "batches-20"

    def cases(
        data: Iterable[str],
        temperatures: Iterable[float] = (0.2,),
        shares: Iterable[float] = (1.0,),
        methods: Iterable[str] = one,
        variants: Iterable[str] = ("",),
    ) -> Iterator[Case]:
        for seed, *values in product(SEEDS, data, methods, temperatures, shares, variants):
            yield Case(*values, seed=seed)

    # 1. Gain.
    yield from cases(FIRST, shares=(1, 0.1))
    # 2. No regret.
    yield from cases(main, temperatures, (1, 0.5))
    yield from cases(FIRST, temperatures, (1, 0.5), methods=["bayesian"])
    yield from cases(FIRST, methods=["oracle"])
    # 3. Exact pairs.
    yield from cases(["pairs"], (0.05, 0.1, 0.25), (1, 0.8, 0.5))
    # 4. A smaller share on every set, the nuisance that views remove among them.
    yield from cases(main, shares=[0.2])
    yield from cases(measured, shares=(1, 0.5, 0.2, 0.1))
    # 5. Variants.
    yield from cases(FIRST[:2], (0.1, 0.25), (1, 0.5, 0.1))
    yield from cases(FIRST[:2], shares=(1, 0.5, 0.1), variants=WITH_BASELINE)
    others = [name for name in VARIANTS if name and name not in WITH_BASELINE]
    yield from cases(FIRST[:2], shares=[0.1], variants=others)
    yield from cases(FIRST[:2], shares=(1, 0.1), methods=("bayesian_hard", "hard", "bayesian"))
    yield from cases(FIRST, shares=[0.5], variants=["another view as teacher"])
    others = ["teacher before the head", "statistics kept", "teacher in eval mode"]
    yield from cases(FIRST[:2], [0.5], [0.5], variants=others)
    # 6. Other people's methods, and the nuisance named.
    yield from cases(three, methods=("fnc_eliminate", "fnc_attract", "glofnd"))
    yield from cases(nuisances, shares=(1, 0.5, 0.1), methods=["domains"])
    yield from cases(("words",), methods=["oracle"])
    yield from cases(main, shares=[0.1])
    yield from cases(["pairs"], (0.05, 0.1, 0.25), methods=["oracle"])


def run(case: Case) -> dict[str, Any]:
    """Train, evaluate and return the record of a case, with its CPU seconds."""
    start = time.process_time()
    if case.data == "pairs":
        scores = pair_scores(_loss(case), case.seed)
    else:
        data = data_set(case.data)
        scores = data.scores(trained(case, data)[0])
    seconds = round(time.process_time() - start, 2)
    return asdict(case) | {"scores": scores, "seconds": seconds}


def trained(case: Case, data: DataSet) -> tuple[nn.Module, nn.Module]:
    """Train as a case says; return the encoder, and the network with the projection head."""
    variant = VARIANTS[case.variant]
    frozen = None
    if variant.teacher == "frozen":  # trained with the plain item as teacher and another seed
        frozen = trained(replace(case, variant="", seed=case.seed + 100), data)[1]
    torch.manual_seed(case.seed)
    encoder, head = data.network()
    network = nn.Sequential(encoder, head) if variant.head else encoder
    loss = _loss(case, items=len(data.labels))
    optimizer = torch.optim.Adam(network.parameters(), lr=data.learning_rate)
    batch = variant.batch or data.batch_size
    steps = len(data.labels) // batch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, data.epochs * steps)
    momentum = loss.momentum if isinstance(loss, FNC) else variant.momentum
    slow = copy.deepcopy(network) if momentum else network
    labels = known(data.labels.cpu(), variant.labels, case.seed).to(data.labels.device)
    for step in range(data.epochs * steps):
        if step % steps == 0:
            order = torch.randperm(len(data.labels))
        rows = order[step % steps * batch :][:batch]
        views = [data.view(rows) for _ in range(2)]
        embeddings = [network(view) for view in views]
        if isinstance(loss, GloFND):
            value = loss(*embeddings, rows, step / (data.epochs * steps))
        elif isinstance(loss, FNC):
            shown = [*views, *(data.view(rows) for _ in range(loss.supports))]
            with torch.no_grad():
                value_of = partial(loss, slow=[slow(view) for view in shown])
            value = value_of(*embeddings)
        else:
            about: dict[str, Tensor] = {}
            if case.share != 1:
                item = data.view(rows) if variant.teacher == "view" else data.plain(rows)
                source = encoder if variant.teacher == "features" else frozen or slow
                about["teacher"] = teacher_pass(source, item, variant.mode)
            if case.method == "oracle":
                about["groups"] = data.labels[rows]
            if case.method == "domains":
                about["domains"] = data.nuisance[rows]
            if variant.labels:
                about["labels"] = labels[rows]
            value = loss(*embeddings, **about)
        learn(value, optimizer, schedule)
        if momentum:
            _follow(slow, network, min(momentum, step / (step + 10)))
    return encoder, network


@torch.no_grad()
def teacher_pass(network: nn.Module, items: Tensor, mode: str) -> Tensor:
    """Embed the teacher's items.

    With ``mode`` "train", batch normalization uses the statistics of these items and adds them to
    its running averages, with "keep" it only uses them, and with "eval" it uses the averages.
    """
    layers = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    if mode == "eval":
        network.eval()
    for layer in layers if mode == "keep" else ():
        layer.momentum = 0.0
    embeddings = network(items)
    network.train()
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    return embeddings


def _loss(case: Case, items: int = 0) -> nn.Module:
    """Make the loss of a case."""
    if case.method.startswith("fnc"):
        return FNC(case.temperature, attract=case.method == "fnc_attract")
    if case.method == "glofnd":
        return GloFND(case.temperature, items)
    return LOSSES[case.method](
        temperature=case.temperature,
        positive_share=case.share,
        teacher_temperature=VARIANTS[case.variant].scale * case.temperature,
    )


@torch.no_grad()
def _follow(slow: nn.Module, network: nn.Module, momentum: float) -> None:
    """Move an average of a network towards it."""
    for average, parameter in zip(slow.parameters(), network.parameters(), strict=True):
        average.lerp_(parameter, 1 - momentum)


def summary(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarize runs: means and spreads over seeds, and differences from InfoNCE by seed."""
    about = ("data", "method", "temperature", "share", "variant")
    cells = by_seed(lines, about)
    sets, methods = [*SETS, "pairs"], [*TITLES]

    def place(cell: tuple[Any, ...]) -> tuple[Any, ...]:
        data, method, temperature, share, variant = cell
        return sets.index(data), methods.index(method), variant, temperature, -share

    records = []
    for cell in sorted(cells, key=place):
        data, method, temperature, _, variant = cell
        record: dict[str, Any] = dict(zip(about, cell, strict=True)) | {"loss": TITLES[method]}
        runs = cells[cell]
        record |= {"seeds": len(runs), "scores": means(runs.values())}
        of = variant if variant in WITH_BASELINE else ""
        base = cells.get((data, "info_nce", temperature, 1.0, of), {})
        best = cells.get((data, "oracle", temperature, 1.0, of), {})
        if above := differences(runs, base):
            record["above_info_nce"] = means(above)
        if possible := differences({seed: best[seed] for seed in runs if seed in best}, base):
            gained = differences({seed: runs[seed] for seed in runs if seed in best}, base)
            record["gap_closed"] = {
                name: math.fsum(one[name] for one in gained)
                / (math.fsum(one[name] for one in possible) or math.nan)
                for name in possible[0]
            }
        records.append(record)
    return records


def regrets(records: list[dict[str, Any]], share: float = 0.5) -> list[dict[str, Any]]:
    """List the differences of runs with a teacher from InfoNCE, the least favorable first."""
    rows = [
        {name: record[name] for name in ("data", "loss", "temperature", "variant", "seeds")}
        | {"probe": probe, "above_info_nce": difference["mean"]}
        for record in records
        if record["share"] == share and record["variant"] in ("", *WITH_BASELINE)
        for probe, difference in record.get("above_info_nce", {}).items()
    ]
    return sorted(rows, key=lambda row: row["above_info_nce"])


def _start(device: str) -> None:
    """Prepare a process for runs of one thread."""
    warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # few labels
    torch.set_num_threads(1)
    torch.set_default_device(device)


def main() -> None:
    """Run what is missing for some minutes, and write the summary."""
    chosen = options(
        __doc__,
        only=[*SETS, "pairs"],
        minutes=60.0,
        processes=1,
        device="cpu",
    )
    journal = Journal.of_cases(RESULTS / "evidence.jsonl", Case)
    absent = {name: why_absent(name) for name in chosen.only}
    for name, why in absent.items():
        if why:
            print(f"{name} is skipped: {why}")
    cases = [case for case in plan() if case.data in absent and not absent[case.data]]
    missing = [case for case in cases if asdict(case) not in journal]
    print(f"{len(missing)} of {len(cases)} runs are missing", flush=True)
    with get_context("spawn").Pool(chosen.processes, _start, [chosen.device]) as pool:
        results = pool.imap_unordered(run, missing)
        try:
            while True:
                line = results.next(max(0.0, chosen.until - time.monotonic()))
                journal.add_scores(line | {"device": chosen.device})
        except (StopIteration, TimeoutError):
            pool.terminate()
    records = summary(journal.of(map(asdict, plan())))
    body = {"runs": len(journal.lines), "records": records, "worst": regrets(records)[:12]}
    write_json(RESULTS / "evidence.json", body)


if __name__ == "__main__":
    main()

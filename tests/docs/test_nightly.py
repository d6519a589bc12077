"""The nightly recipe of the page on serving, run as it is written."""

import os
import random
import re
import shlex
import subprocess
from string import Template

from bayescl_lab.cli import main
from bayescl_lab.runs.result import Result
from tests.docs.test_pages import ROOT, blocks

QUICK = "--dim 4 --epochs 1 --device cpu"
"""Options added to every training of the recipe."""


def run(script: str) -> None:
    """Run a script line by line: ``bayescl`` in this process, other lines by bash."""
    variables: dict[str, str] = {}
    for line in script.splitlines():
        value = re.fullmatch(r"(\w+)=(.+)", line)
        if value:
            echoed = subprocess.check_output(["bash", "-c", f"echo {value[2]}"], text=True)
            variables[value[1]] = echoed.strip()
        elif line.startswith("bayescl "):
            words = shlex.split(Template(line.removesuffix(" || true")).substitute(variables))
            assert main(words[1:] + QUICK.split() * (words[1] == "train")) == 0
        elif line and not line.startswith("#"):
            subprocess.run(["bash", "-euc", line], check=True, env={**os.environ, **variables})


def test_the_nightly_recipe_serves_a_warm_start_and_evaluates_the_newest_purchases(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    first_night, every_night, by_hand = (
        block
        for block in blocks(ROOT / "docs/serving.md", "sh")
        if "live" in block or "before.csv" in block
    )
    pairs = [f"u{user},i{item}" for item in range(24) for user in range(30) if (user + item) % 3]
    random.Random(0).shuffle(pairs)
    days = [pairs[:300], pairs[300:]]

    def write(name: str, rows: list[str]) -> None:
        (tmp_path / name).write_text("\n".join(["user,item", *rows]))

    write("purchases.csv", days[0])
    run(first_night)
    write("purchases.csv", pairs)
    run(every_night)
    live = tmp_path / "live"
    assert live.is_symlink()
    assert live.resolve() != (tmp_path / "runs/first").resolve()
    assert Result.read_file(live / "result.json").sizes["train"] == len(pairs)
    evaluation = Result.read_file(tmp_path / "runs/first/evaluation.json")
    assert evaluation.sizes["judged"] > 20
    left_out = evaluation.skipped["interactions left out (used in training)"]
    assert left_out == len(days[0])
    write("before.csv", days[0])
    write("today.csv", days[1])
    run(by_hand)
    assert Result.read_file(tmp_path / "runs/warm/result.json").measures

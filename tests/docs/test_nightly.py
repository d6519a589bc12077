"""The nightly recipe of the page on serving, run as it is written."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys

from tests.docs.test_pages import ROOT, blocks

QUICK = "--dim 4 --epochs 1 --device cpu"
"""Options that every training of the recipe gets here."""


def test_the_nightly_recipe_serves_a_warm_start_and_evaluates_the_newest_purchases(tmp_path):
    first_night, every_night, by_hand = (
        block
        for block in blocks(ROOT / "docs/serving.md", "sh")
        if "live" in block or "before.csv" in block
    )
    command = f'bayescl() {{ "{sys.executable}" -m bayescl_lab.cli "$@"; }}\n'
    command += 'date() { echo "tonight"; }\n'

    def run(script: str) -> str:
        script = re.sub(r"^(bayescl train ranking .*)$", rf"\1 {QUICK}", script, flags=re.MULTILINE)
        made = subprocess.run(
            ["bash", "-euc", command + script.replace("python -c", f'"{sys.executable}" -c')],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    pairs = [f"u{user},i{item}" for item in range(24) for user in range(30) if (user + item) % 3]
    random.Random(0).shuffle(pairs)
    days = [pairs[:300], pairs[300:]]
    table = tmp_path / "purchases.csv"
    table.write_text("\n".join(["user,item", *days[0]]))
    run(first_night)
    table.write_text("\n".join(["user,item", *pairs]))
    assert "users evaluated" in run(every_night)
    live = tmp_path / "live"
    assert live.is_symlink()
    assert live.resolve() == (tmp_path / "runs" / "tonight").resolve()
    assert json.loads((live / "result.json").read_text())["interactions"]["train"] == len(pairs)
    report = json.loads((tmp_path / "runs/first/evaluation.json").read_text())["report"]
    assert report["interactions that the run was trained on left out"] == len(days[0])
    (tmp_path / "before.csv").write_text("\n".join(["user,item", *days[0]]))
    (tmp_path / "today.csv").write_text("\n".join(["user,item", *days[1]]))
    assert "users evaluated" in run(by_hand)

"""Comparisons of recommenders' losses as a user meets them."""

import json
from pathlib import Path

DATA = "--data bought.csv --dim 8 --candidates 8 --batch-size 6 --lr 0.03 --epochs 2 --device cpu"
LINE = f"compare ranking {DATA} --losses info_nce,bayesian,bpr --seeds 2 --workers 1"


def test_losses_are_compared_reported_resumed_and_repeated(bayescl, bought):
    outcome = bayescl(f"{LINE} --alpha 0.8 --split per-user --out first")
    for words in (
        "InfoNCE",
        "Bayesian",
        "BPR",
        "popularity",
        "EASE",
        "NDCG@20",
        "above InfoNCE, NDCG@20",
    ):
        assert words in outcome.out
    assert "\nNext: " in outcome.out
    files = {path.name for path in Path("first").iterdir()}
    made = {"comparison.md", "comparison.png", "config.yaml", "report.html", "result.json", "runs"}
    assert files == made
    runs = {path.name for path in Path("first/runs").iterdir()}
    losses = {f"{loss}-seed{n}" for loss in ("info_nce", "bayesian", "bpr") for n in (0, 1)}
    assert runs == {*losses, "popularity-seed0", "ease-seed0"}
    result = json.loads(Path("first/result.json").read_text())
    assert result["losses"]["bayesian"]["settings"]["alpha"] == 0.8
    page = Path("first/report.html").read_text()
    assert "above InfoNCE, NDCG@20" in page
    assert "What the figures support" in page

    again = "compare ranking --resume --out first --workers 1"
    kept = Path("first/runs/bpr-seed1/checkpoints/last.ckpt").stat().st_mtime_ns
    # What came before is which columns were guessed.
    assert outcome.out.endswith(bayescl(again).out)
    assert Path("first/runs/bpr-seed1/checkpoints/last.ckpt").stat().st_mtime_ns == kept

    for file in ("result.json", "runs/bpr-seed1/result.json"):
        Path("first", file).unlink()
    assert bayescl(again).status == 0
    after = json.loads(Path("first/result.json").read_text())
    assert after["losses"]["bpr"]["metrics"] == result["losses"]["bpr"]["metrics"]
    assert "losses" in bayescl(f"{again} --losses bpr").complaint

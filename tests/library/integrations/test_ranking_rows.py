"""Data sets with unequal rows for ranking losses, and training on them."""

import math

import pytest

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
pytest.importorskip("datasets", reason="needs the trainer's requirements")

from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer

from bayescl import InfoNCELoss
from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss, ranking_dataset
from integrations import tiny_models

pytestmark = pytest.mark.filterwarnings("default")
NAN = math.nan


def mined(count: int = 4) -> dict[str, list]:
    """Mined rows with scores; some have fewer hard negatives, in each of the ways to say so."""
    words = tiny_models.WORDS
    rows: dict[str, list] = {"anchor": [], "positive": [], "negative_1": [], "negative_2": []}
    rows["scores"] = []
    for row in range(count):
        anchor, positive, first, second = (words[(row * k + k) % len(words)] for k in (1, 2, 4, 7))
        absent = [(first, second), (first, None), ("", second), (None, "")][row % 4]
        rows["anchor"].append(f"{anchor} {positive}")
        rows["positive"].append(positive)
        rows["negative_1"].append(absent[0])
        rows["negative_2"].append(absent[1])
        whole = [0.9, 0.5 if absent[0] else None, 0.25 if absent[1] else None]
        rows["scores"].append([score for score in whole if score] if row % 8 < 4 else whole)
    return rows


def test_cells_may_be_empty_or_lists_and_scores_follow_their_documents():
    rows = ranking_dataset(Dataset.from_dict(mined()))
    assert rows.column_names == ["anchor", "positive", "negative", "negative_2", "scores"]
    wanted = [[0.9, 0.5, 0.25], [0.9, 0.5, NAN], [0.9, 0.25, NAN], [0.9, NAN, NAN]]
    assert str(rows["scores"][:]) == str(wanted)
    assert rows["negative_2"][:][1:] == ["", "", ""]
    assert rows["negative"][2] == mined()["negative_2"][2]
    lists = {
        "q": ["a", "b"], "p": [["c", "d"], ["e"]], "n": [None, ["f", "", "g"]],
        "label": [[1.0, 0.0], [0.0, 1.0]],
    }  # fmt: skip
    rows = ranking_dataset(Dataset.from_dict(lists))
    assert rows[0] == {
        "anchor": "a", "positive": "c", "positive_2": "d", "negative": "", "negative_2": "",
        "label": [1.0, 0.0],
    }  # fmt: skip
    assert rows[1]["negative_2"] == "g"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("anchor", None, "anchor is empty"),
        ("positive", "", "no text in positive"),
        ("scores", [0.9, 0.5], "scores must contain 3 numbers, one per document, got 2"),
        ("scores", [0.9, math.inf, 0.1], "scores must contain finite numbers, got inf"),
    ],
)
def test_a_mistake_is_named_with_its_row(column, value, message):
    rows = mined(1000)
    rows[column][796] = value
    with pytest.raises(ValueError, match=f"row 796: {message}"):
        ranking_dataset(Dataset.from_dict(rows))
    with pytest.raises(ValueError, match="row 0: anchor must contain texts, got 1"):
        ranking_dataset(Dataset.from_dict(rows | {"anchor": [1] * 1000}))


def test_the_trainer_trains_on_a_mined_file_with_unequal_rows(tmp_path):
    rows = ranking_dataset(Dataset.from_dict(mined(1000)))
    model = tiny_models.static(dim=16)
    settings = tiny_models.settings(
        tmp_path, num_train_epochs=1, per_device_train_batch_size=50, learning_rate=0.05
    )
    loss = ContrastiveRankingLoss(
        model, InfoNCELoss(temperature=0.05, positive_share=None), teacher="scores"
    )
    trainer = SentenceTransformerTrainer(model=model, args=settings, train_dataset=rows, loss=loss)
    result = trainer.train()
    assert result.global_step == 20
    assert math.isfinite(result.training_loss)
    anchors, positives = (model.encode(rows[name][:8]) for name in ("anchor", "positive"))
    similarity = model.similarity(anchors, positives)
    assert similarity.diag().mean() > similarity.mean() + 0.3

"""Train a sentence encoder on pairs of texts; needs no download.

pip install '.[sentence-transformers]' && python examples/train_text_pairs.py
"""

import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss

pairs = Dataset.from_dict(
    {
        "anchor": ["It's nice weather outside today.", "He drove to work.", "She reads a book."],
        "positive": ["It's so sunny.", "He took the car to the office.", "She enjoys a novel."],
    }
)
tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train_from_iterator(
    [*pairs["anchor"], *pairs["positive"]], trainers.WordLevelTrainer(special_tokens=["[UNK]"])
)
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu")
loss = ContrastiveRankingLoss(model)

with tempfile.TemporaryDirectory() as folder:
    settings = SentenceTransformerTrainingArguments(
        output_dir=folder, num_train_epochs=5, learning_rate=0.05, report_to="none", use_cpu=True
    )
    SentenceTransformerTrainer(model=model, args=settings, train_dataset=pairs, loss=loss).train()

similarity = model.similarity(model.encode(pairs["anchor"]), model.encode(pairs["positive"]))
print(similarity)

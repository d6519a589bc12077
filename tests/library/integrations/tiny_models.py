"""Sentence encoders that need no download: a bag of embeddings and a fresh BERT."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

ANIMALS = ("cat", "dog", "bird", "fish", "runs", "sleeps", "eats", "flies")
WORDS = ["alpha", "beta", "gamma", "delta", "red", "green", "blue", *ANIMALS]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(WORDS, trainers.WordLevelTrainer(special_tokens=SPECIAL))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", made.token_to_id("[CLS]")), ("[SEP]", made.token_to_id("[SEP]"))],
    )
    return made


def static(dim: int = 8, seed: int = 0) -> SentenceTransformer:
    torch.manual_seed(seed)
    words = StaticEmbedding(tokenizer(), embedding_dim=dim)
    return SentenceTransformer(modules=[words], device="cpu")


def bert(
    dim: int = 8, seed: int = 0, dropout: float = 0.0, padding_side: str = "right"
) -> SentenceTransformer:
    torch.manual_seed(seed)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(),
        padding_side=padding_side,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    )
    config = BertConfig(
        vocab_size=len(fast),
        hidden_size=dim,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * dim,
        max_position_embeddings=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        fast.save_pretrained(folder)
        encoder = Transformer(folder)
    return SentenceTransformer(modules=[encoder, Pooling(dim)], device="cpu")


def features(model: SentenceTransformer, columns: list[list[str]]) -> list[dict]:
    return [model.preprocess(texts) for texts in columns]


def settings(folder: Path, **options: Any) -> SentenceTransformerTrainingArguments:
    """Arguments of a trainer that writes nothing."""
    fixed = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    return SentenceTransformerTrainingArguments(output_dir=str(folder), **fixed, **options)

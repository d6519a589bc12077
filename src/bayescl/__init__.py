"""Contrastive learning that is not fooled by false negatives."""

__version__ = "0.1.0"

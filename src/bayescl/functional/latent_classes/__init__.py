"""Latent classes of embeddings, found without labels."""

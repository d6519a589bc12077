"""Stores, batches, training on two views, and probes: shared by encoders of images and arrays."""

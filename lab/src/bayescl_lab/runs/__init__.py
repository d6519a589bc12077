"""Runs: train, resume, evaluate and serve a model."""

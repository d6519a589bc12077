"""Runs on interactions: trained recommenders and baselines."""

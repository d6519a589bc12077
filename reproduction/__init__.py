"""Reproduction of the paper: its tables, simulation, lemmas and a study of its parameters.

Liu, Wang and Li, "Bayesian Self-Supervised Contrastive Learning", ICML 2024. Run
``python -m reproduction --help`` in the root of the repository. ``README.md`` compares the paper's
claims with the results.
"""

"""Reproduction of the paper: its numerical experiments, its tables and its printed values."""

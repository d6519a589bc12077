"""Comparisons of losses over seeds, tuning and plans."""

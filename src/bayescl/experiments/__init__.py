"""Comparisons of losses over seeds, tuning, plans, and the paper's numbers."""

"""Data sets of the published form with random images, for ``rehearse_reproduce.py``."""

"""The paper: its numerical experiments, its tables, and the figures that it prints."""

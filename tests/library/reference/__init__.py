"""Slow loops, written from the papers without a look at the library."""

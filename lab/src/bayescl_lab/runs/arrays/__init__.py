"""Runs on rows of numbers and signals."""

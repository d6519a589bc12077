"""Readers of interaction files: one format each, every damage named by file and line."""

"""Readers of interaction files, one per format; errors name the file and the line."""

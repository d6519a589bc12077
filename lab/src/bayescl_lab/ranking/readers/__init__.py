"""Readers of interaction files: tables and fixed formats; errors name the file and the line."""

"""Runs on images."""

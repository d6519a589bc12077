"""Comparisons on images as tables, figures and pages."""

"""Contrastive learning on rows of numbers and windows of signals: data, views and encoders."""

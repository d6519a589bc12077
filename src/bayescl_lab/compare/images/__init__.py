"""Losses compared on images: comparisons, tuning and the plans behind them."""

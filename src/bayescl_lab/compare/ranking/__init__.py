"""Losses compared on recommenders: comparisons, tuning and the plans behind them."""

"""The paper's table "Top-k ranking performance": plans, tuning, runs, and the figures of others."""

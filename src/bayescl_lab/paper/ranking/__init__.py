"""The paper's table "Top-k ranking performance", and what others have published."""

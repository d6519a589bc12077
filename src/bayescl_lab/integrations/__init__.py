"""Other libraries, one per file: a recommender for Cornac's experiments, timm's networks."""

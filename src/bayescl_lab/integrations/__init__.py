"""Other libraries, one per file: timm's networks."""

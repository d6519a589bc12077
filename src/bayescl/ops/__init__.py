"""Mathematics on tensors, without state."""

"""What is compared, how settings are chosen, and the paper's numbers."""

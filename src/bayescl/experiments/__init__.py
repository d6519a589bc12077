"""What is compared, and the paper's numbers: losses over seeds, tuning, and plans."""

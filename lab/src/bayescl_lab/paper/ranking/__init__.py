"""The paper's ranking table: reproduced cells and printed values."""

"""The paper's tables on images."""

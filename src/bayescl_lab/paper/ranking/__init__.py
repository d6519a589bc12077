"""The paper's ranking table: its cells made again, and its printed figures."""

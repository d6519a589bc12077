"""Questions of bank customers: which loss puts questions of one intent side by side.

``benchmarks/banking77.py`` is the command. The data are banking77 (Casanueva et al., 2020,
CC BY 4.0): 10,003 questions to train on, 3,080 to test with, 77 intents.
"""

"""What is compared, and the paper's numbers: losses over seeds, tuning, and the plans behind them.

===========  ================================================================================
``grids``    settings to try, as many for every loss
``images``   comparisons on images, their tuning, and the paper's tables (``images.paper``)
``ranking``  the ranking table: plans, tuning, its cells, and the figures of others
===========  ================================================================================
"""

"""Runs with a folder of their own, comparisons of losses, and what they record.

==========================  =================================================================
``run_folder``              what lies where in a run's folder, and safe writing
``image_run``               train, resume and evaluate one run on images
``image_comparison``        several losses over several seeds
``comparison_summary``      means, spreads, paired differences, the oracle gap closed
``comparison_verdict``      what the figures of a comparison support, and what they do not
``comparison_page``         the parts of a page that show a comparison
``tuning_plans``            what is tried before a comparison, as much for every loss
``image_tuning``            how the settings of a comparison are chosen, on a validation part
``images``                  the paper's tables on images, one file per table
==========================  =================================================================
"""

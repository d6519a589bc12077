"""Contrastive learning on images: stores, views, encoders, SimCLR and frozen probes.

Import from its modules. Importing this package does not import them, so
reading a data set does not load the training loop.

==========================  =================================================================
``datasets``, ``store``     images by name in one uint8 tensor; training and evaluation part
``augmentation*``           views of a whole batch, with parameters per image
``encoders``                encoders, including torchvision's ResNets; projection head
``simclr``                  the Lightning module
``probes``                  linear (two protocols), k-NN and few-label probes
==========================  =================================================================
"""

"""Contrastive learning on images: data sets, views and encoders. ``items`` has training and probes.

Import the modules directly: the package itself imports none of them, so reading a data set does
not load the training loop.

==========================  =================================================================
``datasets``, ``pixels``    images by name in one uint8 tensor; training and evaluation split
``augmentation*``           views of a whole batch, with parameters per image
``encoders``                encoders, including torchvision's ResNets
==========================  =================================================================
"""

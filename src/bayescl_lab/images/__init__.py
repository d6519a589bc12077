"""Contrastive learning on images: stores, views, encoders, SimCLR and frozen probes.

Needs ``bayescl[images]``. Import from its modules: importing this package loads none of them, so
that reading a data set does not load the training loop.

==========================  =================================================================
``datasets``, ``store``     images by name, in one uint8 tensor; training and evaluation part
``augmentation*``           views of a whole batch, with parameters per image
``encoders``                networks, those of torchvision, and projection heads
``simclr``                  the Lightning module, with the loss handed in
``probes``                  linear (two protocols), k-NN and few-label probes
==========================  =================================================================
"""

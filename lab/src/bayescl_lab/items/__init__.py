"""What encoders of images and of arrays share: stores, batches, training on two views, probes."""

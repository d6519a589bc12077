"""One run: train, resume, evaluate and serve it."""

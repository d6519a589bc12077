"""One run: train, resume, judge and serve it. Knows no paper."""

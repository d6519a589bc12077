"""Other people's methods against false negatives, under one interface and in the library's loop."""

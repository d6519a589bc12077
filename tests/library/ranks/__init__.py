"""What runs inside gloo ranks: each module lets many claims be tested by one start of processes."""

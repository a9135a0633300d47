"""A fixed vector or attention over all states, against source length."""

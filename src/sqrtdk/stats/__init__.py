"""Statistics over seeds: intervals, curves over d_k, decisions, and summary tables."""

"""The experiment `score_width`."""

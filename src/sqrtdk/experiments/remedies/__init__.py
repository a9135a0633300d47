"""Remedies for unscaled scores, each against 1/√d_k, on associative retrieval."""

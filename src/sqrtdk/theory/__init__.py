"""Exact expectations for unrelated vectors, their limits, and the tables of them."""

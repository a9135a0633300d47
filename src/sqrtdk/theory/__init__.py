"""Exact expectations for unrelated vectors."""

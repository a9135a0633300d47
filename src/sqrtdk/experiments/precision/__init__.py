"""Scaling before or after the score product in half precision."""

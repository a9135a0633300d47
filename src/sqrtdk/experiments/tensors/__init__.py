"""Queries and keys of a trained model, measured head by head."""

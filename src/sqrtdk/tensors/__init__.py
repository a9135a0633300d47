"""Queries and keys of real models: reading them from files, and measuring their heads."""

"""Real queries and keys: where they come from and what their heads do."""

"""What queries, keys and values each need their own projection for."""

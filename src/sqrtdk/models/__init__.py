"""Forward passes of trained models in NumPy, for their queries and keys. All are optional."""

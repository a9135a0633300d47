"""The experiment `precision`."""

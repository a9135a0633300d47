"""The experiment `projections`."""

"""The experiment `related`."""

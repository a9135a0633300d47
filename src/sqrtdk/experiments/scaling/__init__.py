"""The experiment `scaling`."""

"""The experiment `worked_example`."""

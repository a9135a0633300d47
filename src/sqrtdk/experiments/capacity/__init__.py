"""The experiment `capacity`."""

"""The experiment `reach`."""

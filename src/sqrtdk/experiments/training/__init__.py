"""The experiment `training`."""

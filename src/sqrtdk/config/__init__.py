"""Configuration: composed from conf/ by Hydra, checked against the keys, resolved into a `Run`."""

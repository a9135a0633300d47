"""One module an experiment, all of one shape: `registry.Experiment`."""

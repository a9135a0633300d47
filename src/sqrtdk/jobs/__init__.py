"""One module a rule of the pipeline."""

"""The commands of the pipeline's rules, one module per rule."""

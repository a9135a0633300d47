"""Training a content lookup with and without scaling."""

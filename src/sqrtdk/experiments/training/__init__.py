"""Training associative retrieval with and without scaling."""

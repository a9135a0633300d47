"""A causal transformer that is trained, and a recurrent network of the same size."""

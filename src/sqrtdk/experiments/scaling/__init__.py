"""Softmax and gradients with and without scaling, against d_k."""

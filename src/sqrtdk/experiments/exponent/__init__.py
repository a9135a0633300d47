"""The power of d_k that keeps attention as it is."""

"""Why attention divides by the square root of d_k, measured."""

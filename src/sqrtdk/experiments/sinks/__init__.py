"""Attention when half of the queries have nothing to attend to."""

"""Attention by hand: every array of one small example."""

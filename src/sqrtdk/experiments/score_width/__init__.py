"""Kinds of attention scores against their width d_k."""

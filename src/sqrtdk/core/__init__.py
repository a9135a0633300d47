"""Attention, its gradients and metrics: NumPy alone."""

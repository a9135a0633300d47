"""Attention, its gradients, its metrics and the laws of its inputs. Imports NumPy only."""

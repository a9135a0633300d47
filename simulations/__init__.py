"""Simulations of the statistics: how often intervals cover, what the gate notices.

They are not part of a run. `python -m simulations.coverage` prints the tables of
docs/statistics.md.
"""

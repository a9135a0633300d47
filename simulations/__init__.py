"""Simulations of the statistics: the coverage of intervals, and the power of the agreement test.

They are not part of a run. `python -m simulations.coverage` prints the tables of
docs/statistics.md.
"""

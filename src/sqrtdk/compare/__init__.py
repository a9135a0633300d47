"""Compare two runs, or a run with the reference numbers: one table and one page."""

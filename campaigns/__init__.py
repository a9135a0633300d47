"""Long trials of what may go wrong; their figures are in docs/reliability.md."""

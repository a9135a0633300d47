"""Judge claims: their definition, the findings, and the table of verdicts."""

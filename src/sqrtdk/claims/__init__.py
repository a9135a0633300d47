"""Judge claims: their definition, the findings, and the ledger of verdicts."""

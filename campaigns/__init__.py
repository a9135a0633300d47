"""Long tests of failures and mistakes; docs/reliability.md has their results."""

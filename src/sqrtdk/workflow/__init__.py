"""What the Snakefile needs to know."""

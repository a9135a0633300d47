"""How fast the project is, and how much memory it takes: `snakemake benchmark`."""

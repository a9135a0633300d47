"""The pipeline's side of Snakemake: its targets, command line, progress lines and recovery."""

"""The name under which Snakemake finds sqrtdk's way of reporting a run: `--logger sqrtdk`."""

from sqrtdk.progress import LogHandler

__all__ = ["LogHandler"]

"""The name under which Snakemake finds sqrtdk's way of reporting a run: `--logger sqrtdk`."""

import argparse

from sqrtdk import commands
from sqrtdk.progress import LogHandler

__all__ = ["LogHandler"]

# Snakemake imports its plugins before it reads its command line. It would answer a wrong option
# with its usage, which is longer than a screen, and end with what is wrong.
_METHOD = "error"
setattr(argparse.ArgumentParser, _METHOD, commands.Parser.error)

"""The Snakemake logger plugin `--logger sqrtdk`: sqrtdk's progress lines and one-line errors."""

import argparse
import os

from sqrtdk import home
from sqrtdk.workflow.progress import LogHandler, refuse_option

__all__ = ["LogHandler"]

# Snakemake imports its plugins before it reads its command line. It would answer a wrong option
# with its usage, which is longer than a screen, and end with what is wrong.
_METHOD = "error"
setattr(argparse.ArgumentParser, _METHOD, refuse_option)

# Snakemake next looks for its cache, and ends with a traceback if it cannot create it.
os.environ.update(home.variables(os.path.abspath(".snakemake/cache")))

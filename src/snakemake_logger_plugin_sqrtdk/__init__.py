"""The Snakemake logger plugin `--logger sqrtdk`: sqrtdk's progress lines and one-line errors."""

import os

from sqrtdk import home
from sqrtdk.workflow import patches
from sqrtdk.workflow.progress import LogHandler

__all__ = ["LogHandler"]

# Snakemake imports its plugins before it reads its command line.
patches.answer_options_in_one_line()

# Snakemake next looks for its cache, and ends with a traceback if it cannot create it.
os.environ.update(home.variables(os.path.abspath(".snakemake/cache")))

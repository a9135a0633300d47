"""The Snakemake logger plugin `--logger sqrtdk`: sqrtdk's progress lines and one-line errors."""

import logging
import os

from sqrtdk import home
from sqrtdk.workflow import patches
from sqrtdk.workflow.progress import LogHandler, OneLine

__all__ = ["LogHandler"]

# Snakemake imports its plugins before it reads its command line.
patches.answer_options_in_one_line()
# Other wrong values give tracebacks, through its logger.
logging.getLogger("snakemake.logging").addFilter(OneLine())

# Snakemake next looks for its cache, and ends with a traceback if it cannot create it.
os.environ.update(home.variables(os.path.abspath(".snakemake/cache")))

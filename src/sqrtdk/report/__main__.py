"""Write the report of a run: `python -m sqrtdk.report results/NAME`."""

from sqrtdk.jobs.publish import main
from sqrtdk.system import command_line

if __name__ == "__main__":
    command_line.run(main, "FOLDER")

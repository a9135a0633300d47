"""Run the pipeline, also of an installed copy: `python -m sqrtdk.workflow --config grid=smoke`.

The arguments are Snakemake's. Results are written into the current folder.
"""

import os
import sys

from sqrtdk import home
from sqrtdk.system import command_line, project_files, stdio


def main() -> None:
    """Replace this process by Snakemake with this package's Snakefile and profile."""
    snakefile, profiles = project_files.find("Snakefile"), project_files.find("profiles")
    # -P: a file random.py or json.py in the current folder is not imported.
    command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(snakefile)]
    # Named, because Snakemake would take a folder `default` here for its profile.
    command += ["--workflow-profile", str(profiles / "default")]
    if sys.argv[1:] == ["--version"]:
        stdio.say(f"{command_line.version()}, with Snakemake", end=" ")
    elif sys.argv[1:2] in (["-h"], ["--help"]):
        stdio.say(f"{__doc__}\nKeys of --config: python -m sqrtdk.run --help\n")
    # Snakemake needs a home before it loads anything of this package.
    os.environ.update(home.variables(os.path.abspath(".snakemake/cache")))
    os.execv(sys.executable, [*command, *sys.argv[1:]])


if __name__ == "__main__":
    main()

"""Write the page of a run that the repository shows: docs/report/."""

import shutil
import sys
from pathlib import Path

from sqrtdk.export import markdown
from sqrtdk.storage import atomic
from sqrtdk.system import command_line, errors

FIGURES = (
    *("scaling-entropy", "scaling-gradients", "scaling-weights"),
    *("related-entropy", "training-steps"),
)
"""The figures of the page: few, because git keeps every version of them."""


def main() -> None:
    """Write the page of a run's folder (first) and its figures into another folder."""
    folder, target = map(Path, sys.argv[1:])
    missing = [stem for stem in FIGURES if not (folder / f"figures/{stem}.png").is_file()]
    if missing:
        raise errors.UserError(f"{folder} has no figures/{missing[0]}.png")
    pictures = target / "figures"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    for stem in FIGURES:
        shutil.copyfile(folder / f"figures/{stem}.png", pictures / f"{stem}.png")
    atomic.write_atomically(target / "index.md", markdown.render(folder, figures=FIGURES))


if __name__ == "__main__":
    command_line.run(main, "FOLDER", "TARGET")

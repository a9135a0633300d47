"""Find the files that lie at the top of the repository and that a wheel carries in the package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def find(name: str) -> Path:
    """Return the path of `conf`, `Snakefile` or `profiles`: of an installed copy, or a checkout."""
    installed = PACKAGE / name
    return installed if installed.exists() else PACKAGE.parents[1] / name

"""Run every command that the README shows, on the smoke grid.

    python -m campaigns.readme

Commands of run.py get `grid=smoke` and share the results of a scratch folder, like those of a user.
A command is lost if its exit code is not 0, or if its report or table is not
there.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sqrtdk.workflow import parser

ROOT = Path(__file__).resolve().parents[1]

PIPELINE = ["python3", "run.py"]
BY_HAND = ["uv", "run", "python", "-m", "sqrtdk.run"]

MY_YAML = "d_k: [16, 64]\nname: from_file\n"
"""An example of a user's configuration; the README only names the file."""


def shown() -> list[list[str]]:
    """Return the README's commands as words, except the one that starts these tests."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    starts = tuple(shlex.join(start) for start in (PIPELINE, BY_HAND))
    found = [shlex.split(line, comments=True) for line in lines if line.startswith(starts)]
    return [words for words in found if words != [*PIPELINE, "test"]]


def write_files(folder: Path) -> None:
    """Write the files that the README's commands name, as a user would have them."""
    (folder / "my.yaml").write_text(MY_YAML, encoding="utf-8")
    shutil.copytree(ROOT / "examples", folder / "examples")
    q, k = np.random.default_rng(0).standard_normal((2, 3, 20, 8))
    np.savez(folder / "qk.npz", **{"layer0.q": q, "layer0.k": k})


def names_of(words: list[str]) -> list[str]:
    """Return the names that a command gives its run, those of a file included."""
    given = [word.removeprefix("name=") for word in words if word.startswith("name=")]
    return ["from_file"] if "--configfile" in words else given


def folder_of(words: list[str]) -> str:
    """Return the name of a command's run; grids other than the default have their own."""
    grids = [word.removeprefix("grid=") for word in words if word.startswith("grid=")]
    return (names_of(words) or grids or ["default"])[0]


def on_the_smoke_grid(words: list[str], folder: Path) -> list[str]:
    """Return a README command adapted to the smoke grid, with its results in `folder`."""
    if words[: len(BY_HAND)] == BY_HAND:
        return [sys.executable, "-m", *words[len(BY_HAND) - 1 :]]
    arguments = words[len(PIPELINE) :]
    if "grid=smoke" not in arguments and "compare" not in arguments:
        # The folder is that of the command as it is written.
        name = [] if names_of(arguments) else [f"name={folder_of(arguments)}"]
        kept = [word for word in arguments if not word.startswith("grid=")]
        place = kept.index("--config") if "--config" in kept else len(kept)
        arguments = [*kept[:place], "--config", "grid=smoke", *name, *kept[place + 1 :]]
    return [sys.executable, str(ROOT / "run.py"), "--directory", str(folder), *arguments]


def missing(words: list[str], folder: Path) -> str:
    """Return the file that a command should have written but did not, or nothing."""
    if words[: len(BY_HAND)] == BY_HAND:
        made = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    else:
        name = folder_of(words)
        own = "experiments=tensors" in words
        made = [f"results/{name}/{'tensors/heads' if own else 'scaling/summary'}.csv"]
        if "compare" in words:
            made = ["results/compare/default..mine/compare.html"]
        elif "scaling" not in words:
            made.append(f"results/{name}/report.html")
    return next((path for path in made if not (folder / path).is_file()), "")


def main() -> None:
    """Run all commands; exit 1 if one of them is lost."""
    parser.Parser(description=__doc__).parse_args()
    lost = 0
    found = shown()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_files(folder)
        for words in found:
            began = time.monotonic()
            done = subprocess.run(
                on_the_smoke_grid(words, folder),
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            absent = missing(words, folder)
            wrong = f"exit code {done.returncode}" if done.returncode else absent and f"no {absent}"
            lost += bool(wrong)
            print(f"{wrong or 'ok'}: {shlex.join(words)} ({time.monotonic() - began:.0f} s)")
            if wrong:
                print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", flush=True)
    print(f"{len(found)} commands of the README, {lost} lost")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()

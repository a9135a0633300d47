"""Read Snakemake's command line as the user typed it: entries of --config, and misplaced words.

Snakemake's own parser reads values differently, and its errors name no key.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

ENTRIES = ("--config", "--resources", "--res", "--set-threads", "--set-resources")
"""Options that take any number of KEY=VALUE, and would also take a target."""

FILES = ("--configfile", "--configfiles")
"""Options that take any number of files, and would also take a target."""

QUIET = ("all", "host", "progress", "reason", "rules")
"""Values of `--quiet`, which takes any number of them."""

KEY = re.compile(r"[a-zA-Z_][\w-]*\w")
"""Pattern of Snakemake's keys."""


def options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word with the option before it; "" means none.

    >>> list(options(["all", "-C", "d_k=4", "seeds=2", "-n"]))
    [('', 'all'), ('--config', 'd_k=4'), ('--config', 'seeds=2')]
    """
    option = ""
    for word in arguments:
        if short := re.fullmatch(r"-[a-zA-Z]*?C(.*)", word, flags=re.DOTALL):
            option, word = "--config", short[1]
        elif word.startswith("-"):
            option, _, word = word.partition("=")
        if word and word != option:
            yield option, word


def entries(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return the keys and values that follow `--config`."""
    words = [word for option, word in options(arguments) if option == "--config"]
    pairs = [word.partition("=") for word in words]
    return [(key, value) for key, sign, value in pairs if sign]


def misplaced(arguments: Sequence[str]) -> list[str]:
    """Return the words that an option takes although they look like targets."""
    found, files = [], 0
    for option, word in options(arguments):
        files += option in FILES
        late = option in FILES and files > 1 and not Path(word).exists()
        taken = option in ("--quiet", "-q") and word not in QUIET
        if late or taken or (option in ENTRIES and "=" not in word):
            found.append(word)
    return found


def misplaced_word(arguments: Sequence[str]) -> str | None:
    """Return the error of a command line that Snakemake cannot read, or None."""
    # Not at the top, because `snakemake --version` does not need it.
    from sqrtdk.config import errors, overrides
    from sqrtdk.config import keys as config_keys
    from sqrtdk.experiments.registry import EXPERIMENTS

    # A key without a value is not a target, unless an experiment has the same name.
    keys = {*config_keys.flat_keys(), *config_keys.RUN_KEYS} - set(EXPERIMENTS)
    targets = [word for word in misplaced(arguments) if word not in keys]
    if targets:
        rest = list(arguments)
        for target in targets:
            rest.remove(target)
        command = shlex.join(["snakemake", *targets, *rest])
        return f"{targets[0]!r} is read as a value of an option; targets go first: {command}"
    try:
        for key, text in entries(arguments):
            if not KEY.fullmatch(key):
                overrides.refuse_key(key, text)
    except errors.ConfigError as error:
        return str(error)
    return None

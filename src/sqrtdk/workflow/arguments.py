"""Snakemake's command line as the user typed it: what follows --config, and what stands wrong.

Snakemake's own parser reads values by rules of its own and, where it gives up, names no key.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

ENTRIES = ("--config", "--resources", "--res", "--set-threads", "--set-resources")
"""Options that take KEY=VALUE any number of times, and would take a target as one."""

FILES = ("--configfile", "--configfiles")
"""Options that take any number of files, and would take a target as one."""

QUIET = ("all", "host", "progress", "reason", "rules")
"""What `--quiet` takes, any number of times."""

KEY = re.compile(r"[a-zA-Z_][\w-]*\w")
"""What Snakemake takes for a key."""


def options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word with the option that it follows; "" is none.

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
    """Return the words that an option takes although they seem to be targets."""
    found, files = [], 0
    for option, word in options(arguments):
        files += option in FILES
        late = option in FILES and files > 1 and not Path(word).exists()
        taken = option in ("--quiet", "-q") and word not in QUIET
        if late or taken or (option in ENTRIES and "=" not in word):
            found.append(word)
    return found


def mistake(arguments: Sequence[str]) -> str | None:
    """Return what is wrong with a command line that Snakemake could not read, or None."""
    # Not at the top, because `snakemake --version` needs none of it.
    from sqrtdk.config import errors, overrides
    from sqrtdk.config import keys as config_keys
    from sqrtdk.experiments.registry import EXPERIMENTS

    # A key without its value is no target, unless an experiment has the same name.
    keys = {*config_keys.flat_keys(), *config_keys.RUN_KEYS} - set(EXPERIMENTS)
    targets = [word for word in misplaced(arguments) if word not in keys]
    if targets:
        rest = list(arguments)
        for target in targets:
            rest.remove(target)
        command = shlex.join(["snakemake", *targets, *rest])
        return f"{targets[0]!r} is taken for a value of an option; targets go first: {command}"
    try:
        for key, text in entries(arguments):
            if not KEY.fullmatch(key):
                overrides.refuse_key(key, text)
    except errors.ConfigError as error:
        return str(error)
    return None

"""Read Snakemake's command line as the user typed it: entries of --config, and misplaced words.

Snakemake's own parser reads values differently, and its errors name no key.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sqrtdk.messages import nearest

FORMS = {
    **dict.fromkeys(("--config", "-C"), ("KEY=VALUE", r".*=.*")),
    **dict.fromkeys(("--resources", "--res"), ("NAME=NUMBER", r"\w+=.+")),
    **dict.fromkeys(("--default-resources", "--default-res"), ("NAME=VALUE", r"\w+=.+")),
    "--set-threads": ("RULE=NUMBER", r"\w+=([1-9]\d*|.*[()+*/].*)"),
    "--set-resources": ("RULE:NAME=VALUE", r"\w+:\w+=.+"),
    "--set-scatter": ("NAME=NUMBER", r"\w+=[1-9]\d*"),
    "--set-resource-scopes": (
        "NAME=local, NAME=global or NAME=excluded",
        r"\w+=(local|global|excluded)",
    ),
    "--groups": ("RULE=GROUP", r"\w+=.+"),
    "--group-components": ("GROUP=NUMBER", r"\w+=[1-9]\d*"),
    "--consider-ancient": ("RULE=INPUT", r"\w+=.+"),
    "--target-jobs": ("RULE:WILDCARD=VALUE", r"\w+:.*"),
    **dict.fromkeys(("--cores", "-c"), ("whole numbers from 1, or all", r"[1-9]\d*|all")),
    **dict.fromkeys(("--jobs", "-j"), ("whole numbers from 1", r"[1-9]\d*|unlimited")),
    **dict.fromkeys(("--max-threads", "--local-cores"), ("whole numbers from 1", r"[1-9]\d*")),
    "--list-changes": ("code, input or params", "code|input|params"),
}
"""For options whose bad values Snakemake answers with a traceback, with its usage or not at all:
what is allowed, and its pattern."""

ENTRIES = tuple(option for option, (form, _) in FORMS.items() if re.search("[A-Z]", form))
"""Options that take any number of KEY=VALUE, and would also take a target."""

SINGLE = (
    *(option for option in FORMS if option not in ENTRIES),
    *("--batch", "--workflow-profile"),
)
"""Options that take one value; the next word is a target."""

RULES = (
    *("--set-threads", "--set-resources", "--groups", "--consider-ancient", "--batch"),
    *("--allowed-rules", "--preemptible-rules", "--omit-from", "-O", "--cache"),
)
"""Options whose values begin with the name of a rule; Snakemake ignores an unknown one."""

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
    >>> list(options(["--cores", "1", "all"]))
    [('--cores', '1'), ('', 'all')]
    """
    option = ""
    for word in arguments:
        if short := re.fullmatch(r"-[a-zA-Z]*?C(.*)", word, flags=re.DOTALL):
            option, word = "--config", short[1]
        elif short := re.fullmatch(r"(-[cj])(\w.*)", word, flags=re.DOTALL):
            option, word = short.groups()
        elif word.startswith("-") and not word[1:2].isdecimal():
            option, _, word = word.partition("=")
        if word and word != option:
            yield option, word
            option = "" if option in SINGLE else option


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


def wrong_value(arguments: Sequence[str]) -> str | None:
    """Return the error of the first value that an option does not take, or None.

    >>> wrong_value(["--cores", "0"])
    "--cores: '0' is not allowed; allowed: whole numbers from 1, or all"
    """
    for option, word in options(arguments):
        form, pattern = FORMS.get(option, ("", ".*"))
        # Snakemake passes values to its own processes in this encoding.
        if not (re.fullmatch(pattern, word, flags=re.DOTALL) or word.startswith("base64//")):
            return f"{option}: {word!r} is not allowed; allowed: {form}"
    return None


def ignored_value(
    arguments: Sequence[str], rules: Iterable[str], folders: Sequence[str] = ()
) -> str | None:
    """Return the error of the first rule or workflow profile that does not exist, or None.

    `folders` are those that a workflow profile is relative to. Snakemake ignores both.

    >>> ignored_value(["--set-threads", "mege=2"], ["merge"])
    "--set-threads: 'mege=2' is for no rule of this run (--list-rules); did you mean merge?"
    """
    known = list(rules)
    for option, word in options(arguments):
        places = [Path(folder, part, word) for folder in folders for part in ("", "profiles")]
        there = word == "none" or any(place.exists() for place in places)
        if option == "--workflow-profile" and not there:
            return f"{option}: {word!r} does not exist; allowed: a folder, a file or none"
        # Other words with a slash are files, or what Snakemake passes to its own processes.
        rule = re.split("[=:]", word)[0]
        if option in RULES and rule not in known and "/" not in rule:
            hint = nearest(rule, known)
            return f"{option}: {word!r} is for no rule of this run (--list-rules){hint}"
    return None


def without(arguments: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return arguments without some words, and without options that are then left without any."""
    rest = list(arguments)
    for word in words:
        place = rest.index(word)
        del rest[place]
        alone = place == len(rest) or rest[place].startswith("-")
        if alone and rest[place - 1] in (*ENTRIES, *FILES):
            del rest[place - 1]
    return rest


def unknown_target(target: str, targets: Sequence[str]) -> str:
    """Return the error for a word that is not one of the run's targets."""
    # Not at the top, because `snakemake --version` does not need it.
    from sqrtdk.config import overrides
    from sqrtdk.experiments.registry import EXPERIMENTS

    if target in EXPERIMENTS:
        # The experiments of the run are its targets, so this one is of another grid or choice.
        key = EXPERIMENTS[target].needs_key
        best, *others = [f"grid={grid}" for grid in overrides.grids_of(target)]
        form = f"{target} --config {best}" + (f" {key}=VALUE" if key else "")
        also = "".join(f" or {other}" for other in others)
        return f"target {target!r}: this run does not build it; allowed: {form}{also}"
    return f"unknown target {target!r}; known: {', '.join(targets)}{nearest(target, targets)}"


def command_error(arguments: Sequence[str]) -> str | None:
    """Return the error of a command line that Snakemake cannot read, or None."""
    # Not at the top, because `snakemake --version` does not need it.
    from sqrtdk.config import errors, overrides
    from sqrtdk.config import keys as config_keys
    from sqrtdk.experiments.registry import EXPERIMENTS

    # A key without a value is not a target, unless an experiment has the same name.
    known = {"all", "verify", "compare", "figures_paper", "showcase", "benchmark", *EXPERIMENTS}
    keys = {*config_keys.flat_keys(), *config_keys.RUN_KEYS} - known
    found = misplaced(arguments)
    targets = [word for word in found if word in known or "/" in word]
    if targets:
        command = shlex.join(["snakemake", *targets, *without(arguments, targets)])
        return f"{targets[0]!r} is read as a value of an option; targets go first: {command}"
    wrong = wrong_value(arguments)
    if wrong is None and found:
        wrong = f"{found[0]!r} is read as a value of an option, which it is not"
    if wrong:
        word = found[0] if found and found[0] not in keys else None
        return wrong + nearest(word, known, "the target {}, first".format)
    try:
        for key, text in entries(arguments):
            if not KEY.fullmatch(key):
                overrides.refuse_key(key, text, entries(arguments))
    except errors.FormError as error:
        return _try_form(arguments, error.experiment, error.instead or []) or str(error)
    except errors.ConfigError as error:
        return str(error)
    return None


def _try_form(arguments: Sequence[str], top: str, instead: Sequence[str]) -> str | None:
    """Return the error of the command line with another form in place of a key, if it has one."""
    from sqrtdk.config import errors
    from sqrtdk.workflow import request

    replaced = [re.match(rf"(experiment\.)?{top}[.=]", word) for word in arguments]
    kept = [word for word, match in zip(arguments, replaced, strict=True) if not match]
    place = next(n for n, match in enumerate(replaced) if match)
    kept[place:place] = instead
    try:
        request.compose({}, (), kept)
    except errors.ConfigError as error:
        return str(error)
    return None

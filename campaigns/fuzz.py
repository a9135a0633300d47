"""Feed random input to everything that reads what a user or another program wrote.

    python -m campaigns.fuzz [--cases 100000] [--seed 0]

The readers take turns: Hydra overrides, values of a config file or `--config`, config files as
bytes, the slabs of jobs, and tables, shards and records on disk. A case is lost if a reader raises
anything but its one kind of error, if the message has more than one line, or if it takes more than
two seconds of CPU time. A case that does not end is shown, and stops the campaign.
"""

import faulthandler
import json
import random
import string
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqrtdk import schema
from sqrtdk.config import entries, keys, overrides, resolve, yaml_reader
from sqrtdk.experiments import cells
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.scaling.measure import COLUMNS
from sqrtdk.jobs import measure as measure_job
from sqrtdk.report import dictionary
from sqrtdk.storage import frames, guards, shard_files, tables
from sqrtdk.system import errors
from sqrtdk.workflow import parser as workflow_parser
from sqrtdk.workflow import request

WORDS = (
    *sorted(keys.flat_keys()), *EXPERIMENTS, *keys.RUN_KEYS, *entries.FORMULAS,
    "hydra", "on", "off", "inverse", "gaussian", "planted", "rule", "power", "exponent", "law",
    "null", "true", "nan", "inf", "range(0,3)", "choice(1,2)", "glob(*)", "${d_k}",
    "${oc.env:HOME}", "!!python/object:os.system", "../..", "0x10", "1_000", "1e9", "-1", "64",
    "0.5", "é", "\0", "\n",
)  # fmt: skip

SIGNS = "=:,.+~-[]{}()'\"\\$@/|;&<>*?! \t#%^`"


def words(rng: random.Random) -> str:
    """Return a string that is nearly an override."""
    parts = []
    for _ in range(rng.randint(1, 8)):
        kind = rng.random()
        if kind < 0.5:
            parts.append(rng.choice(WORDS))
        elif kind < 0.9:
            parts.append(rng.choice(SIGNS))
        else:
            parts.append("".join(rng.choices(string.printable, k=rng.randint(1, 4))))
    return "".join(parts)


def override(rng: random.Random) -> str:
    """Return an override, usually with a key that exists."""
    if rng.random() < 0.3:
        return words(rng)
    return f"{rng.choice(WORDS)}={words(rng)}"


def value(rng: random.Random, depth: int = 2) -> Any:
    """Return a value that YAML may give."""
    kind = rng.random()
    if depth and kind < 0.15:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if depth and kind < 0.35:
        return {rng.choice(WORDS): value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    return rng.choice(
        [words(rng), rng.choice(WORDS), rng.randint(-5, 5000), rng.random() * 10, None, True,
         False, float("nan"), 10**rng.randint(0, 400), b"x", 1e308]
    )  # fmt: skip


def of_overrides(rng: random.Random, folder: Path) -> None:
    """Check overrides like both commands."""
    lines = [override(rng) for _ in range(rng.randint(1, 3))]
    overrides.check_overrides(lines, sweep=rng.random() < 0.5)


def of_values(rng: random.Random, folder: Path) -> None:
    """Resolve a configuration in which some keys are random."""
    given = {rng.choice(WORDS): value(rng) for _ in range(rng.randint(1, 3))}
    resolve.resolve({**BASE, **given})


def of_command(rng: random.Random, folder: Path) -> None:
    """Compose everything that `--config` may give, including Hydra's grammar."""
    given = {rng.choice(WORDS): value(rng) for _ in range(rng.randint(0, 2))}
    request.compose(given | {"hydra": words(rng)}, (), ["--config", words(rng)])


YAML = (
    *("- ", "? ", ": ", "&a ", "*a", "<<: *a", "| ", ">-\n", "#", "---\n", "...\n", "\t", "\r\n"),
    *("!!set ", "!!binary ", "!!int ", "!!float ", "!!null ", "!!omap ", "!!timestamp ", "!mine "),
    *("!!python/object/apply:os.system ", "!!python/name:os.system ", "!!python/object/new:dict "),
    *("010", "0x1F", "0b1", "1_000", "1:30", "2026-13-45", "2026-01-01", ".inf", "-.NaN", "~"),
    *("on", "yes", "No", "TRUE", "=", "9" * 5000, "1e9999", "\ufeff", "\0", "\x85", "\u2028"),
    *("__use_yte__: true\n", "?import os\n", "%YAML 1.1\n", '"\\x00"', '"\\ud800"', "'"),
)
"""Text with a meaning in YAML."""


def document(rng: random.Random) -> bytes:
    """Return a text that is nearly a config file."""
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(f"{rng.choice(WORDS)}: ")
        elif kind < 0.6:
            parts.append(rng.choice(YAML))
        elif kind < 0.7:
            parts.append(f"\n{' ' * rng.randint(0, 4)}")
        elif kind < 0.73:
            parts.append(rng.choice("[{-?") * rng.choice((1, 40, 60, 3000)))
        elif kind < 0.76:
            # Each expands to many of the one before.
            wide = rng.randint(1, 12)
            parts += [f"\n- &x{n + 1} [{', '.join([f'*x{n}'] * wide)}]" for n in range(12)]
        else:
            parts.append(words(rng))
    text = rng.choice(("", "", "\ufeff", "&x0 1\n", "- &x0 y")) + "".join(parts)
    coding = rng.choice(("utf-8", "utf-8", "utf-8", "latin-1", "utf-16", "utf-7"))
    return text.encode(coding, errors="replace")


def changed(rng: random.Random, whole: bytes) -> bytes:
    """Return a file's content with some bytes changed."""
    content = bytearray(whole)
    for _ in range(rng.randint(1, 20)):
        if not content:
            break
        at = rng.randrange(len(content))
        change = rng.random()
        if change < 0.5:
            content[at] = rng.randrange(256)
        elif change < 0.75:
            del content[at : at + rng.randint(1, 50)]
        else:
            content[at:at] = bytes(rng.choices(range(256), k=rng.randint(1, 20)))
    return bytes(content)


def of_files(rng: random.Random, folder: Path) -> None:
    """Read a config file, a random one or a whole one with some bytes changed."""
    path = folder / "my.yaml"
    path.write_bytes(document(rng) if rng.random() < 0.7 else changed(rng, CONFIG))
    if rng.random() < 0.7:
        resolve.resolve({**BASE, **yaml_reader.read_config(path)})
    else:
        resolve.load(path)


def of_slabs(rng: random.Random, folder: Path) -> None:
    """Read the slab of a job."""
    content = changed(rng, json.dumps(SLAB).encode()).decode(errors="replace")
    given = content if rng.random() < 0.6 else json.dumps(value(rng), default=str)
    found = errors.read_json(given, "a slab")
    if rng.random() < 0.5:
        found = SLAB | {rng.choice(sorted(SLAB)): value(rng)}
    measure_job.check_slab(found, scaling.CONFIG_KEYS)


def of_records(rng: random.Random, folder: Path) -> None:
    """Read the records that a report needs, as well as its tables."""
    path = folder / "record"
    path.write_bytes(changed(rng, json.dumps({"a": [1, {"b": None}]}).encode()))
    tables.read_record(path)


def of_rows(rng: random.Random, folder: Path) -> None:
    """Read a table like the report."""
    path = folder / "rows.csv"
    path.write_bytes(changed(rng, SHARD))
    dictionary.read_rows(path, COLUMNS[:2])


def of_tables(rng: random.Random, folder: Path) -> None:
    """Read a shard and a table with some bytes changed."""
    content = changed(rng, SHARD)
    path = folder / "shard.csv"
    path.write_bytes(content)
    shard_files.read_slab(path)
    shard_files.is_valid_shard(path)
    (folder / ".shard.csv.sha256").write_bytes(rng.randbytes(rng.randint(0, 70)))
    guards.is_changed(path)
    if rng.random() < 0.5:
        shard_files.read_shard(path, COLUMNS)
    else:
        path.write_bytes(b"\n".join(content.split(b"\n")[1:-2]) + b"\n")
        frames.read(path, COLUMNS)


READERS: dict[str, tuple[Callable[[random.Random, Path], None], int]] = {
    "overrides": (of_overrides, 30),
    "values": (of_values, 25),
    "files": (of_files, 20),
    "command": (of_command, 1),
    "slabs": (of_slabs, 5),
    "records": (of_records, 2),
    "rows": (of_rows, 5),
    "tables": (of_tables, 12),
}
"""The readers, and their weights: a whole command costs a tenth of a second."""

MAY_RAISE = errors.UserError


def run(reader: str, seed: int, folder: Path) -> str:
    """Run one case; return the reason if it is lost."""
    rng = random.Random(f"{reader} {seed}")
    start = time.process_time()
    try:
        READERS[reader][0](rng, folder)
    except MAY_RAISE as error:
        if len(str(error).splitlines()) > 1:
            return f"more than one line: {error}"
    except Exception:
        return traceback.format_exc()
    took = time.process_time() - start
    return f"took {took:.1f} s" if took > 2 else ""


def main() -> None:
    """Run the cases; exit 1 if any is lost."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("--cases", type=workflow_parser.whole, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    plan = [name for name, (_, often) in READERS.items() for _ in range(often)]
    counts = dict.fromkeys(READERS, 0)
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.cases):
            reader = plan[number % len(plan)]
            counts[reader] += 1
            faulthandler.dump_traceback_later(120, exit=True)
            reason = run(reader, options.seed + number, Path(scratch))
            if reason:
                lost += 1
                print(f"LOST {reader} {options.seed + number}: {reason}", flush=True)
    print(f"{options.cases} cases ({counts}): lost {lost}")
    sys.exit(lost > 0)


def base() -> dict[str, Any]:
    """Return the smoke configuration as Hydra composes it."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(overrides.CONF), version_base="1.3"):
        composed: Any = OmegaConf.to_container(compose("config", ["grid=smoke"]), resolve=True)
    return dict(composed)


SLAB: dict[str, Any] = {
    "d_k": 2, "n_k": 2, "n_q": 2, "d_v": 1, "dtype": schema.DTYPES[0],
    "inputs": {"gaussian": {"law": "gaussian"}},
    "scaling": {"on": {"rule": "power", "exponent": 0.5}}, "seeds": [0, 3],
}  # fmt: skip


def shard() -> bytes:
    """Return a small, whole shard of `scaling`."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "shard.csv"
        shard_files.write_shard(
            path, SLAB, cells.measure_cells(scaling.cells(SLAB), COLUMNS), COLUMNS
        )
        return path.read_bytes()


BASE, SHARD = base(), shard()
CONFIG = resolve.resolve(BASE).to_yaml().encode()

if __name__ == "__main__":
    main()

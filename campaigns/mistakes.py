"""Run wrong commands, and check that each prints one line and changes nothing.

    python -m campaigns.mistakes [--every 1] [--only WORD] [--workers 2]

Each mistake is a real command line, in a folder with a small finished run. It counts as lost unless
the command ends by itself with an exit code that is not 0 (for `python -m sqrtdk.run`: 2), prints
exactly one line, the line begins with `sqrtdk: ` and contains the required words (key, value, what
is allowed), and every file in the folder keeps its bytes.
"""

import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from sqrtdk.experiments.registry import EXAMPLES, EXPERIMENTS
from sqrtdk.schema import Key
from sqrtdk.workflow import parser as workflow_parser

ROOT = Path(__file__).resolve().parents[1]

BEFORE = ("Using workflow specific profile", "Building DAG of jobs")
"""Lines that Snakemake prints before it reads anything."""

RUN, PIPELINE = "sqrtdk.run", "snakemake"


class Mistake(NamedTuple):
    """A module, its arguments, and the words that its message must contain.

    If the message is not the project's `own`, it may have more lines, and tracebacks.
    """

    module: str
    arguments: tuple[str, ...]
    words: tuple[str, ...] = ()
    own: bool = True


# A value as it is typed, and the part of it that the message shows.
STRANGE = {
    "nan": "nan", "inf": "inf", "-inf": "-inf", "1e999": "", "9" * 400: "9999", "[]": "[]",
    "[[]]": "[]", "{}": "{}", "é": "é", "''": "", '""': "", "'a b'": "a b", "a\nb": "a",
    "../x": "../x", "/etc/passwd": "/etc/passwd", "~": "~", "$(touch X)": "touch X",
    "`touch X`": "touch X", "; touch X": "touch X", "| touch X": "touch X", "${seed}": "seed",
    "!!python/object/apply:os.system [id]": "id", "<script>": "<script>", "0x10": "0x10",
    "1_000": "1_000", "0b1": "0b1", "1:30": "1:30", "None": "None", "null": "",
    "1,000": "1,000",
    "-1": "-1", "2.5": "2.5", "true": "rue", "x" * 300: "xxx", "'\\'": "\\", "\u202eabc": "abc",
    "&a [*a]": "a", "*a": "*a", "@file": "@file", "%d": "%d", "#": "#", "a=b": "a=b", "": "",
}  # fmt: skip
NOT_OF = {
    "whole": {"x", "on"},
    "number": {"0", "-0.5"},
    "choice": {"0", "float 64"},
    "name": {"onn", "gausian"},
}
"""For each kind a few values that are nearly right."""
FINE = {"number": {"2.5"}}


def keys() -> dict[str, Key]:
    """Return every key, as `experiment key` of the first experiment that has it; no examples.

    Keys of files and free text are left out: they need a file, which tests/config/ has.
    """
    found: dict[str, tuple[str, Key]] = {}
    for name, module in EXPERIMENTS.items():
        wanted = [key for key in module.config_keys if key.kind in NOT_OF]
        for key in wanted if name not in EXAMPLES else ():
            found.setdefault(key.name, (name, key))
    return {f"{name} {key.name}": key for name, key in found.values()}


def of_keys() -> Iterator[Mistake]:
    """Yield every key with strange values: half of them by hand, a quarter through the pipeline."""
    for place, (where, key) in enumerate(keys().items()):
        experiment, name = where.split()
        values = STRANGE | {value: value for value in NOT_OF[key.kind]}
        for number, (value, shown) in enumerate(values.items()):
            if value in FINE.get(key.kind, ()):
                continue
            # If the key is also an experiment, a mapping is for the experiment.
            if value == "{}" and name in EXPERIMENTS:
                continue
            given = (f"experiments={experiment}", f"{name}={value}")
            if (place + number) % 2:
                yield Mistake(RUN, given, (name, shown))
            if (place + number) % 4 == 0:
                yield Mistake(PIPELINE, ("--config", *given), (name, shown))
        if key.kind == "whole" and name != "log_every":
            beyond = str((key.maximum or 10**15) + 1)
            given = (f"experiments={experiment}", f"{name}={beyond}")
            yield Mistake(RUN, given, (name, beyond))
            yield Mistake(PIPELINE, ("--config", *given), (name, beyond))


RUN_KEYS = {
    "name": ["''", "a/b", "../x", "/tmp/x", ".hidden", "-x", "x" * 65, "shards", "Benchmarks",
    "a b",
             "<script>", "$(touch X)", "a\nb", "é", "[a]", "~", "007", "1_000", "010", "0x10"],
    "experiments": ["scalng", "[scaling,scaling]", "[]", "3", "true", "{}", "''", "[[scaling]]",
                    "[scaling,nothing]", "Scaling"],
    "grid": ["smok", "''", "3", "[smoke]", "../config", "{}", "true", "smoke.yaml", "Smoke"],
    "shard_seeds": ["0", "-1", "2.5", "x", "[1]", "nan", "''", "1_000", "{}", "null", "1e400"],
    "scale_rules": ["3", "[]", "x", "{on:3}", "{new:{}}", "{on:{rule:powr}}", "{2a:{rule:power}}",
                    "{new:{rule:power,exponent:x}}", "{new:{rule:power,exponnt:1}}",
                    "{new:{rule:constant,value:0}}", "{new:{rule:constant,value:nan}}",
                    "{new:{rule:soft_cap,cap:-1}}", "{new:{rule:d_model,heads:0}}",
                    "{'a b':{rule:constant,value:1}}", "{'<b>':{rule:constant,value:1}}"],
    "input_laws": ["3", "[]", "x", "{gaussian:3}", "{gaussian:{}}", "{new:{law:gausian}}",
                   "{new:{law:student_t,df:0}}", "{new:{law:student_t,df:nan}}",
                   "{new:{law:planted,cosine:2}}", "{new:{law:planted,cosin:0.5}}",
                   "{new:{law:sphere,arrays:none}}", "{'../x':{law:gaussian}}"],
    "experiment": ["scaling", "{}x", "3", "{nothing:{}}"],
    "hydra": ["d_k='4", "d_k=[1", "nokey=1", "d_k", "=", "d_k=1,2", "d_k=range(0,3)",
    "+d_k=1 d_k=2",
              "~grid", "grid=nothing", "grid@x=smoke", "hydra.nothing=1", "hydra/launcher=nothing",
              "scale_rules.new.rule=powr", "'d_k=$(touch X)'", "{}", "[d_k=1]", "3", "name=../x",
              "name='<script>'", "hydra.run.dir=/tmp/x", "d_k=${oc.env:HOME}", "d_k=${nothing}",
              "hydra.searchpath=[/tmp]", "d_k=choice(1)", "d_k=1_000", "experiment=scaling"],
}  # fmt: skip


def of_the_run() -> Iterator[Mistake]:
    """Yield keys of the whole run, with values that `--config` takes."""
    for key, values in RUN_KEYS.items():
        for value in values:
            yaml = value.replace(":", ": ") if value.startswith("{") else value
            words = (key,) if key != "hydra" else ()
            yield Mistake(PIPELINE, ("--config", f"{key}={yaml}"), words)
            if key not in ("hydra", "name"):
                yield Mistake(RUN, (f"{key}={value}",), words)


def of_names() -> Iterator[Mistake]:
    """Yield unknown keys, and keys in the wrong place."""
    near = {"d_kk": "d_k", "D_K": "d_k", "scalin": "scaling", "seedz": "seed",
    "experimnts": "experim",
            "nme": "name", "shard_seds": "shard_seeds", "scale_rule": "scale_rules"}  # fmt: skip
    for given, meant in near.items():
        for program, option in ((RUN, ()), (PIPELINE, ("--config",))):
            yield Mistake(program, (*option, f"{given}=1"), (given, f"did you mean {meant}"))
    for wrong in (
        ("d_k=1", "d_k=2"), ("seed=1", "seeds=2"), ("experiments=reach", "n_q=2"),
        ("experiments=worked_example", "seed=3"), ("scaling={d_q: [1]}",), ("training={}x",),
        ("training={d_k: x}",), ("training=3",), ("reach=[]",), ("experiments=scaling", "steps=3"),
        ("scaling={d_k: 16, d_k: 17}",), ("d_k={a: 1}",), ("worked_example=x",),
    ):  # fmt: skip
        yield Mistake(PIPELINE, ("--config", *wrong), (wrong[-1].split("=")[0],))
        if " " not in wrong[-1]:
            yield Mistake(RUN, wrong, (wrong[-1].split("=")[0],))
    for words in (
        ("d_k",), ("=4",), ("d.k=4",), ("1d_k=4",), ("d k=4",), ("'=4",), ("d_k=4", "x"), ("é=4",),
        ("$(touch X)=1",), ("d_k:4",), ("__class__=1",), ("d_k.x=1",), ("scale_rules.x=1",),
    ):  # fmt: skip
        yield Mistake(RUN, words)
        if words[0] not in ("d_k=4", "d_k.x=1", "scale_rules.x=1"):
            yield Mistake(PIPELINE, ("--config", *words))
    yield Mistake(PIPELINE, ("--config", f"d_k={2**40}", "experiments=scaling"), ("d_k", "memory"))
    yield Mistake(RUN, (f"d_k={2**40}",), ("d_k", "memory"))
    yield Mistake(RUN, ("--multirun", "d_k=range(0,3,0)"))
    yield Mistake(RUN, ("--multirun", "d_k=4,4"), ("twice",))
    yield Mistake(RUN, ("--multirun", "d_k=x,1"), ("d_k", "x"))
    yield Mistake(RUN, ("d_k=1,2",), ("--multirun",))
    yield Mistake(RUN, ("d_k=glob(*)",), ("--multirun",))
    yield Mistake(RUN, ("experiments=[scaling,reach]",), ("experiments",))
    for out in ("results", "nowhere/x.csv", "results/mine/scaling/runs.csv", "results/mine/x/y.csv",
                "[a,b]", "''", "results/mine/config.yaml", "/proc/x/y.csv", "a\0b",
                "3"):  # fmt: skip
        if "\0" not in out:
            yield Mistake(RUN, ("d_k=1", f"out={out}"), ("out",))
    yield Mistake(RUN, ("--multirun", "d_k=1", "out=a.csv,b.csv"), ("out",))
    for option in (
        "--nothing",
        "--cfg=nothing",
        "--config-name=nothing",
        "--config-dir=/nowhere",
        "-x",
        "--multirun=3",
        "--config-path=/nowhere",
        "--info=x",
        "--package",
    ):
        yield Mistake(RUN, (option, "d_k=1"))


FILES: dict[str, bytes] = {
    "open.yaml": b"d_k: [1", "twice.yaml": b"d_k: 1\nd_k: 2\n", "latin.yaml": b"name: \xe4",
    "list.yaml": b"- d_k\n", "word.yaml": b"d_k", "empty.yaml": b"", "tab.yaml": b"d_k:\n\t- 1\n",
    "object.yaml": b"d_k: !!python/object/apply:os.system ['touch X']\n",
    "name.yaml": b"d_k: !!python/name:os.system\n", "tag.yaml": b"d_k: !mine 3\n",
    "binary.yaml": bytes(range(256)), "nul.yaml": b"d_k: \0\n",
    "two.yaml": b"d_k: 1\n---\nd_k: 2\n",
    "deep.yaml": b"d_k: " + b"[" * 2000 + b"]" * 2000, "maps.yaml": b"{a: " * 2000 + b"}" * 2000,
    "laughs.yaml": b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b", ".join([b"*%c" % (97 + i)] * 9)) for i in range(9)
    ), "laugh.yaml": b"d_k:\n  - &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"  - &%c [%s]\n" % (98 + i, b", ".join([b"*%c" % (97 + i)] * 9)) for i in range(9)
    ),
    "itself.yaml": b"d_k: &a [*a]\n", "itself2.yaml": b"training: &a {d_k: *a}\n",
    "merge.yaml": b"training: &a\n  <<: *a\n", "unknown.yaml": b"d_k: *a\n",
    "hex.yaml": b"d_k: 0x10\n",
    "octal.yaml": b"d_k: 010\n", "under.yaml": b"d_k: 1_000\n", "minutes.yaml": b"d_k: 1:30\n",
    "date.yaml": b"d_k: 2020-01-01\n", "float.yaml": b"training: {noise_sd: 1_0.5}\n",
    "set.yaml": b"d_k: !!set {1, 2}\n",
    "time.yaml": b"d_k: !!timestamp x\n",
    "bool.yaml": b"d_k: !!bool x\n", "bytes.yaml": b"d_k: !!binary aGVsbG8=\n",
    "number.yaml": b"3: 4\n", "null.yaml": b"null: 4\n", "true.yaml": b"true: 4\n",
    "complex.yaml": b"? [1, 2]\n: 3\n", "complex2.yaml": b"training: {[1, 2]: 3}\n",
    "bom.yaml": b"\xef\xbb\xbfd_q: 1\n", "crlf.yaml": b"d_q: 1\r\n",
    "utf16.yaml": "d_q: 1".encode("utf-16"),
    "yte.yaml": b"__use_yte__: true\nd_k: ?__import__('os').system('touch X')\n",
    "script.yaml": b"name: <script>alert(1)</script>\n", "path.yaml": b"name: ../../x\n",
    "key.yaml": b"\"<b>\\n\": 1\n", "digits.yaml": b"d_k: " + b"9" * 5000 + b"\n",
    "json.json": b'{"d_k": ', "list.json": b"[1, 2]", "twice.json": b'{"d_k": 1, "d_k": 2}',
    "nan.json": b'{"d_k": NaN}', "digits.json": b'{"d_k": ' + b"9" * 5000 + b"}",
    "entry.yaml": b"scale_rules: {on: &a {rule: power, exponent: *a}}\n",
}  # fmt: skip
"""Wrong configuration files. Snakemake rejects `empty.yaml` itself, as it should."""


def of_files() -> Iterator[Mistake]:
    """Yield wrong configuration files."""
    for name in FILES:
        yield Mistake(PIPELINE, ("--configfile", f"files/{name}"))
    for path in ("missing.yaml", ".", "files", "/nowhere/x.yaml", "results/mine/report.html"):
        yield Mistake(PIPELINE, ("--configfile", path))


def of_targets() -> Iterator[Mistake]:
    """Yield wrong targets and options of Snakemake."""
    for target in (
        "scalng", "Scaling", "results/shards/scaling/x.csv", "results/mine/nothing.csv", "../x",
        "é",
        "results/shards/exact/x.csv", "results/shards/nothing/x.csv", "results/benchmarks/x.csv",
        "$(touch X)", "results/../../x", "measure", "results/other/report.html", "/etc/passwd",
    ):  # fmt: skip
        yield Mistake(PIPELINE, (target,), (target,))
    # Snakemake reports these before it reads anything of the project.
    for options in (
        ("--profile", "nowhere"), ("--executor", "nothing"), ("--set-threads", "x"),
        ("--resources", "x"), ("--default-resources", "x"), ("--logger", "nothing"),
        ("--batch", "x"), ("--cores", "x"), ("--nothing",), ("--configfile",),
    ):  # fmt: skip
        yield Mistake(PIPELINE, options, own=False)
    for options in (("--until", "nothing"), ("--forcerun", "nothing")):
        yield Mistake(PIPELINE, options)
    for runs in ("mine", "[mine]", "[mine,mine]", "[mine,nothing]", "[mine,shards]", "[1,{}]", ""):
        yield Mistake(PIPELINE, ("compare", "--config", f"runs={runs}"))
    yield Mistake(PIPELINE, ("compare",))
    yield Mistake(PIPELINE, ("compare", "--config", "runs=[mine,reference]", "d_k=4"), ("d_k",))


MAIN = 'if __name__ == "__main__"'


def mains() -> list[str]:
    """Return the modules that are commands, except the two programs."""
    paths = [p for p in (ROOT / "src/sqrtdk").rglob("*.py") if MAIN in p.read_text("utf-8")]
    names = [str(p.relative_to(ROOT / "src").with_suffix("")).replace("/", ".") for p in paths]
    return sorted(
        {name.removesuffix(".__main__") for name in names}
        - {RUN, "sqrtdk.cli", "sqrtdk.storage.code_digest", "sqrtdk.workflow.targets"}
        - {"sqrtdk.workflow.code_files", "sqrtdk.system.fork_server"}
        # Other names of the programs, and commands outside of runs, which have their own tests.
        - {"sqrtdk", "sqrtdk.workflow", "sqrtdk.models", "sqrtdk.models.rescale"}
        - {name for name in names if name.startswith("sqrtdk.known_answers")}
        - {"sqrtdk.known_answers"}
    )


def of_modules() -> Iterator[Mistake]:
    """Yield the commands of the rules, run by hand."""
    config = "results/mine/config.yaml"
    for module in mains():
        yield Mistake(module, ())
        yield Mistake(module, ("x",) * 9)
        if module in ("sqrtdk.jobs.measure", "sqrtdk.jobs.expect"):
            first = ("scaling",) if module == "sqrtdk.jobs.measure" else ()
            for text in ("", "{", "[]", "3", "null", "{}", '{"seeds": 3}', '{"points": 3}',
                         '{"d_k": "x"}', '{"points": [[1]]}', "[" * 5000, '{"points": [["a",1,1]]}',
                         '{"seeds": [3, 1]}', json.dumps({"points": [[0, 0, 0]]})):  # fmt: skip
                yield Mistake(module, (*first, text, "x.csv"))
            if first:
                yield Mistake(module, ("nothing", "{}", "x.csv"), ("nothing",))
        elif module == "sqrtdk.jobs.shards":
            yield Mistake(module, ("nowhere.csv",), ("is missing",))
        elif module in ("sqrtdk.jobs.draw", "sqrtdk.jobs.paper"):
            yield Mistake(module, ("nothing", "nowhere", "figures"), ("nothing",))
            for folder in ("nowhere", config, "broken"):
                yield Mistake(module, ("scaling", folder, "figures"), (folder,))
        elif module in ("sqrtdk.report", "sqrtdk.jobs.export", "sqrtdk.jobs.verify"):
            for folder in ("nowhere", config, "files", "broken", "broken2", "broken3", "", "é"):
                yield Mistake(module, (folder,))
        elif module == "sqrtdk.jobs.compare":
            for folder in ("nowhere", config, "files", "broken", "broken2", "broken3", "", "é"):
                yield Mistake(module, (folder, "reference", "x.csv", "x.html"))
                yield Mistake(module, ("reference", folder, "x.csv", "x.html"))
        elif module == "sqrtdk.jobs.showcase":
            for folder in ("nowhere", config, "files", "broken", "", "é"):
                yield Mistake(module, (folder, "report"))
        elif module == "sqrtdk.jobs.configure":
            yield Mistake(module, ("nowhere.yaml", "copy.yaml"), ("nowhere.yaml",))
        elif module != "sqrtdk.jobs.trace":
            for first in ("nowhere.yaml", "files", "files/open.yaml", "files/binary.yaml",
                          "files/empty.yaml", "files/list.yaml", "files/deep.yaml",
                          "files/itself.yaml",
                          "files/object.yaml", "files/twice.yaml", "files/laugh.yaml",
                          "results/mine/report.html"):  # fmt: skip
                yield Mistake(module, (first, *REST[module]), (first,))
            if REST[module][0] == "scaling":
                for name in ("nothing", "../scaling", ""):
                    yield Mistake(module, (config, name, *REST[module][1:]), (name,))
            for missing in ("nowhere.csv", "files/binary.yaml", "files", "files/empty.yaml"):
                given = [missing if "results" in word else word for word in REST[module]]
                if missing in given:
                    yield Mistake(module, (config, *given), (missing,))
    yield Mistake("sqrtdk.jobs.merge", (config, "scaling", "x.csv"))
    yield Mistake("sqrtdk.jobs.trace", ("x.json", "snakemake", "nowhere.csv"), ("nowhere.csv",))
    yield Mistake("sqrtdk.jobs.trace", ("files/x/y.json", "snakemake", "files"), ("files",))


S = "results/mine/scaling"
REST = {
    "sqrtdk.jobs.judge": (f"{S}/summary.csv", "x.csv"),
    "sqrtdk.jobs.contrasts": ("scaling", f"{S}/runs.csv", "x.csv"),
    "sqrtdk.jobs.exact_curves": ("scaling", "x.csv"),
    "sqrtdk.jobs.answer": ("x.csv",),
    "sqrtdk.jobs.merge": ("scaling", "x.csv"),
    "sqrtdk.jobs.summarize": ("scaling", f"{S}/runs.csv", f"{S}/exact.csv", "x.csv"),
    "sqrtdk.jobs.derive": ("scaling/tails", "x.csv"),
}
"""Arguments after the configuration, for each module that reads one."""


def of_others() -> Iterator[Mistake]:
    """Yield commands of the benchmarks and the campaigns."""
    for module, given in (
        ("benchmarks.measure", ()), ("benchmarks.measure", ("nonsense",)),
        ("benchmarks.measure", ("nonsense", "x.csv")), ("benchmarks.measure", ("starts", "x", "y")),
        ("benchmarks.measure", ("starts", "x.csv", "--rounds", "x")),
        ("benchmarks.measure", ("starts", "x.csv", "--rounds", "0")),
        ("benchmarks.page", ()), ("benchmarks.page", ("a", "b")),
        ("benchmarks.page", ("nowhere.csv", "a", "b", "c")),
        ("benchmarks.page", ("files/binary.yaml", "a", "b", "c")),
        ("benchmarks.slabs", ()), ("benchmarks.slabs", ("x",)), ("benchmarks.slabs", ("x", "{")),
        ("benchmarks.slabs", ("bare", "{")), ("benchmarks.slabs", ("nothing", "{}")),
        ("campaigns.crash", ("--times", "x")), ("campaigns.crash", ("--times", "-1")),
        ("campaigns.crash", ("--signal", "x")), ("campaigns.crash", ("x",)),
        ("campaigns.fuzz", ("--cases", "x")), ("campaigns.fuzz", ("--seed", "x")),
        ("campaigns.fuzz", ("--cases", "-1")),
        ("campaigns.mistakes", ("--every", "x")), ("campaigns.mistakes", ("--every", "0")),
        ("campaigns.mistakes", ("--workers", "0")),
    ):  # fmt: skip
        yield Mistake(module, given, given[:1] if "nonsense" in given[:1] and given[1:] else ())


def table() -> list[Mistake]:
    """Return every mistake once."""
    parts = (of_keys, of_the_run, of_names, of_files, of_targets, of_modules, of_others)
    return list(dict.fromkeys(one for part in parts for one in part()))


def command(mistake: Mistake, folder: Path) -> list[str]:
    """Return the whole command line."""
    if mistake.module != PIPELINE:
        return [sys.executable, "-m", mistake.module, *mistake.arguments]
    at = ("--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder))
    return [sys.executable, "-m", "snakemake", *at, *mistake.arguments]


def contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file, except Snakemake's own records."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".snakemake" not in path.parts
    }


def answer(mistake: Mistake, folder: Path) -> tuple[str, str]:
    """Run a command; return the line that it printed, and the reason if it is lost."""
    process = subprocess.Popen(
        command(mistake, folder), cwd=folder, start_new_session=True, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )  # fmt: skip
    try:
        out, said = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "", "did not end"
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(BEFORE)]
    line = lines[-1] if lines else ""
    wanted = {RUN: (2,), PIPELINE: (1, 2)}.get(mistake.module, (1, 2))
    if process.returncode not in wanted:
        return line, f"exit code {process.returncode}"
    if not mistake.own:
        return line, ""
    # A sweep prints the cells before the mistake.
    if (out.strip() and "--multirun" not in mistake.arguments) or len(lines) != 1:
        return line, f"says more than one line: {out[-1000:]}{said[-1500:]}"
    if not line.startswith("sqrtdk: "):
        return line, "does not begin with sqrtdk:"
    if len(line) > 1500:
        return line[:300], f"a line of {len(line)} characters"
    lacking = [word for word in mistake.words if word not in line]
    return line, f"does not say {lacking}" if lacking else ""


def prepare(folder: Path) -> None:
    """Make a small finished run, and files that are wrong."""
    small = ("--config", "name=mine", "grid=smoke", "experiments=[scaling,training]")
    # With its report, so that every kind of file is there.
    done = subprocess.run(
        command(Mistake(PIPELINE, small), folder), cwd=folder, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"sqrtdk: the small run failed: {done.stderr.decode()}")
    (folder / "files").mkdir()
    for name, content in FILES.items():
        (folder / "files" / name).write_bytes(content)
    for name, claims in (("broken", b"\0"), ("broken2", b"a,b\n1,2\n"), ("broken3", b"")):
        shutil.copytree(folder / S, folder / name)
        shutil.copy(folder / "results/mine/config.yaml", folder / name)
        for path in (folder / name).glob("*.csv"):
            path.write_bytes(claims)
        (folder / name / "claims.csv").write_bytes(claims)
    (folder / "broken2/provenance.json").write_bytes(b"{")
    (folder / "broken3/config.yaml").write_bytes(b"experiments: 3\n")


def main() -> None:
    """Run every command; exit 1 if any is lost."""
    parser = workflow_parser.Parser(description=__doc__)
    parser.add_argument("--every", type=workflow_parser.whole, default=1, help="every nth mistake")
    parser.add_argument("--only", default="", help="a word that the command contains")
    parser.add_argument("--workers", type=workflow_parser.whole, default=2)
    options = parser.parse_args()
    chosen = [one for one in table() if options.only in " ".join([one.module, *one.arguments])]
    chosen = chosen[:: options.every]
    lost = 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.workers) as pool:
        folders: queue.SimpleQueue[Path] = queue.SimpleQueue()
        whole = Path(scratch) / "whole"
        whole.mkdir()
        prepare(whole)
        before = contents(whole)
        for number in range(options.workers):
            folders.put(Path(shutil.copytree(whole, Path(scratch) / str(number))))

        def trial(mistake: Mistake) -> tuple[str, str]:
            folder = folders.get()
            line, why = answer(mistake, folder)
            after = contents(folder)
            if after != before:
                changed = {n for n in before | after if before.get(n) != after.get(n)}
                why = f"{why} changed {sorted(changed)}"
                shutil.rmtree(folder)
                shutil.copytree(whole, folder)
            folders.put(folder)
            return line, why

        for number, (mistake, (line, why)) in enumerate(
            zip(chosen, pool.map(trial, chosen), strict=True)
        ):
            lost += bool(why)
            shown = " ".join([mistake.module, *map(repr, mistake.arguments)])
            short = shown if len(shown) < 200 else f"{shown[:200]}..."
            print(
                f"{number + 1}: {short} | " + (f"LOST: {why} | " if why else "") + line, flush=True
            )
    print(f"{len(chosen)} mistakes: lost {lost}")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
